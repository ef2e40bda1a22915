"""Adapters that carry a job to a machine and bring its report back."""

from __future__ import annotations
