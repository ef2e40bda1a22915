"""Sign-in: providers, pages, and command lines whose person is in a browser."""
