"""The judge's part of replaying: captures, verified replays, timed calls, duels."""
