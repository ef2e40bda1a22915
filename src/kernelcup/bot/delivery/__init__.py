"""Messages that the bot sends without being asked: progress, results, news, forum threads."""
