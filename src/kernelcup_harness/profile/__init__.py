"""Profilers: what runs them, and what they tell. Nothing here times or judges."""
