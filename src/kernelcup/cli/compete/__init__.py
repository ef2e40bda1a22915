"""Commands of participants: submit, follow, compare, repeat."""
