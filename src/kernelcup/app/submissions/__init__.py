"""Submissions: taken in, looked at, shown as far as somebody may see them."""
