"""News of leaderboards: recorded when results are stored and when times are reached, shown by one rule."""

from __future__ import annotations
