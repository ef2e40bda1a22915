"""Live events: one look at the database for all who follow, and the stream of one submission."""
