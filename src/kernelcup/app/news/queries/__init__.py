"""News of leaderboards, and the webhooks that get them."""
