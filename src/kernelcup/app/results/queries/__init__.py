"""Runs, standings, reviews, and what stands beside a place."""
