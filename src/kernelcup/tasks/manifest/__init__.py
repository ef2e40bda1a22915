"""Reads `task.yml` and checks all that it says."""
