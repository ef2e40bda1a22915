"""Ray, the engine for one's own machines."""

from __future__ import annotations
