"""The ranking as a function of entries: what the queries of the database have to agree with."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernelcup.domain import Standing
from kernelcup.scoring import Entry, band_heads, ranked


def standings(entries: Iterable[Entry]) -> list[Standing]:
    """Rank each user's best entry.

    Results that cannot be distinguished from the head of a band share its rank. Inside a band the lower time
    comes first, of equal ones the better proven, and of equal ones of these the earlier submission.
    """
    best: dict[str, Entry] = {}
    for entry in entries:
        is_time = math.isfinite(entry.score_s) and entry.score_s > 0
        if is_time and (entry.user not in best or entry.order < best[entry.user].order):
            best[entry.user] = entry
    ordered = sorted(best.values(), key=lambda entry: entry.order)
    return ranked(ordered, list(band_heads(entry.placed for entry in ordered)))
