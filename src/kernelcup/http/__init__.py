"""The HTTP service: thin routes over the services."""

from __future__ import annotations
