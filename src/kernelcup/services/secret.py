"""Secrets that we hand out: shown once, kept as hashes."""

from __future__ import annotations

import hashlib
import secrets

PREFIX = "kc_"
"""What each begins with, so that scanners of leaked secrets can know them."""
RANDOM_BYTES = 32
LENGTH = len(PREFIX) + 43


def new_secret() -> str:
    """Return a secret that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def hash_of(secret: str) -> str:
    """Return what is stored of a secret. It is random enough that nothing slower is needed."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
