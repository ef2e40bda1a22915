"""Runners that wait for jobs."""
