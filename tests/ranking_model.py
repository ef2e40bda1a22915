"""The ranking as a function of entries: what the queries of the database have to agree with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from kernelcup.domain import Standing
from kernelcup.scoring import Entry, band_heads, ranked


def standings(entries: Iterable[Entry]) -> list[Standing]:
    """Rank each user's best entry.

    Results that cannot be distinguished from the head of a band share its rank. Inside a band the lower time
    comes first, and of equal ones the earlier submission.
    """
    best: dict[str, Entry] = {}
    for entry in entries:
        is_time = math.isfinite(entry.score_s) and entry.score_s > 0
        if is_time and (entry.user not in best or _order(entry) < _order(best[entry.user])):
            best[entry.user] = entry
    ordered = sorted(best.values(), key=_order)
    return ranked(ordered, list(band_heads(entry.placed for entry in ordered)))


def _order(entry: Entry) -> tuple[float, datetime, int]:
    return entry.ranked_s, entry.submitted_at, entry.submission_id
