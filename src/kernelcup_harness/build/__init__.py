"""Builds of submissions that compile something at import."""
