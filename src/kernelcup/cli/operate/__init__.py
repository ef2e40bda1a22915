"""Commands of those who run the service: serve, database, bot, configuration, demo."""
