"""The agent of a machine that the service cannot reach: it connects out, and judges what it fetches."""

from __future__ import annotations
