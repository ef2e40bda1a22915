"""Pages of leaderboards: rankings, plots, statements, badges, feeds."""
