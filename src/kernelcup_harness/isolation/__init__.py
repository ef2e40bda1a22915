"""Sandboxes, limits and processes of untrusted code."""
