"""The web site: pages over the same services as the API."""
