"""News of leaderboards: noticed when results are stored and when moments come, shown by one rule."""

from __future__ import annotations
