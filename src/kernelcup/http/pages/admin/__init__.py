"""Pages of those who run leaderboards and the service. What they may do is decided by the services."""
