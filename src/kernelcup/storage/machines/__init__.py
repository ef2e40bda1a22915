"""Dispatchers, calibrations and outages."""
