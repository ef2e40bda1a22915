"""Limits and pauses."""
