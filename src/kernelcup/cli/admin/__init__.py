"""Commands of those who run a competition: people, limits, pauses, reviews, devices."""
