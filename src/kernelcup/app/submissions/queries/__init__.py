"""Submissions, their code, events and screenings."""
