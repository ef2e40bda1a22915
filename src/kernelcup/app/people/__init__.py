"""People: accounts, names, sign-in, tokens, and who used which right."""
