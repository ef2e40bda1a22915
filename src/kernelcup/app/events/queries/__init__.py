"""Queries of events, registrations, teams and announcements."""
