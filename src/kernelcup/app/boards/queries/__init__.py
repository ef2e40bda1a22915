"""Leaderboards, their tasks, members and invites."""
