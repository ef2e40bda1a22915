"""Leaderboards: their tasks, settings, members and names."""
