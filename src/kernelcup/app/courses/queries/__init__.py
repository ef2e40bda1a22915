"""Courses, their members and invites."""
