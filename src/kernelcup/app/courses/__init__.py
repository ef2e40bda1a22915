"""Courses: registers, invites, grades."""
