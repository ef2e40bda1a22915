"""Those who wait: one look at the database serves all who follow events, and one all agents."""
