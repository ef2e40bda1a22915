"""Secrets that we issue, shown once and stored as hashes, and short codes that people type."""

from __future__ import annotations

import hashlib
import secrets

PREFIX = "kc_"
"""The prefix of each secret, so that scanners for leaked secrets can recognize them."""
RANDOM_BYTES = 32

# Twenty consonants that do not look alike and form no words. 8 of them have 34 bits.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_HALF = 4


def new_secret() -> str:
    """Return a random secret that cannot be guessed."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def hash_of(secret: str) -> str:
    """Return the hash to store for a secret. The secret is random enough not to need a slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def new_code() -> str:
    """Return a random code of 34 bits that is easy to type; it must expire soon."""
    return read_code("".join(secrets.choice(_LETTERS) for _ in range(2 * _HALF)))


def read_code(typed: str) -> str:
    """Return a typed code in the form in which it is stored."""
    letters = "".join(letter for letter in typed[:64].upper() if letter.isascii() and letter.isalpha())
    return f"{letters[:_HALF]}-{letters[_HALF:]}"
