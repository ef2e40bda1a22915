"""Reports in words: the same on the command line, on Discord and on pages."""
