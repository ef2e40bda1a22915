"""Events of leaderboards: their table of points, registration, teams, and what is said in them."""
