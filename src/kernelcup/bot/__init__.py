"""The Discord bot: a client of our own HTTP API. It contains no rules of the platform."""
