"""Secrets that we issue: shown once, stored as hashes."""

from __future__ import annotations

import hashlib
import secrets

PREFIX = "kc_"
"""The prefix of each secret, so that scanners for leaked secrets can recognize them."""
RANDOM_BYTES = 32
LENGTH = len(PREFIX) + 43


def new_secret() -> str:
    """Return a random secret that cannot be guessed."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def hash_of(secret: str) -> str:
    """Return the hash to store for a secret. The secret is random enough not to need a slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
