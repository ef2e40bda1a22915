"""How much may be submitted, and what takes no submissions now."""
