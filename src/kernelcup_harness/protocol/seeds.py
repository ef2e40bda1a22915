"""Seeds: each run has one secret, from which all others are derived."""

from __future__ import annotations

import hashlib
import hmac
import secrets

SEED_BITS = 63
SECRET_BYTES = 32
MOST_SEEDS = 1 << SEED_BITS


def draw_secret() -> bytes:
    """Return a fresh 256-bit secret."""
    return secrets.token_bytes(SECRET_BYTES)


def commitment(secret: bytes) -> str:
    """Return the SHA-256 (hex) that can be published before the secret is."""
    return hashlib.sha256(secret).hexdigest()


def derive_seed(secret: bytes, *place: object, below: int | None = None) -> int:
    """Return a seed: HMAC-SHA-256 of the place where it is used, under ``secret``.

    It has 63 bits, or is less than ``below`` if that is given.
    """
    message = "/".join(str(part) for part in place).encode()
    digest = hmac.new(secret, message, hashlib.sha256).digest()
    if below is not None:
        return int.from_bytes(digest, "big") % below
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)
