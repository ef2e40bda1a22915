"""Commands of those who write tasks and make leaderboards."""
