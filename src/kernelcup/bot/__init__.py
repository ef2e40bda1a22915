"""The Discord bot: a client of our own HTTP API. No rule of the platform lives here."""
