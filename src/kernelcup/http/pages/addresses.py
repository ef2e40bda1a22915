"""Addresses of ours that are put together in Python."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def address(path: str, *parts: str, **query: str) -> str:
    """Return an address with parts and a query that may be any texts; empty keys are left out."""
    whole = "/".join((path, *(quote(part, safe="") for part in parts)))
    given = {name: value for name, value in query.items() if value}
    return f"{whole}?{urlencode(given)}" if given else whole
