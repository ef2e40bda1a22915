"""Where a command works: the database of this machine, or a server."""
