"""Clocks: who measures a time, and who checks it."""
