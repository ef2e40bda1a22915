"""A leaderboard's rule about whose kernels take the time, decided by what ran. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcup_harness.protocol import Finding, RanKernel

BELOW, UNKNOWN = "own_share", "own_share_unknown"


Cut = tuple[Sequence[RanKernel], float]
"""The kernels of a call, and how many times as long they take in a row as in the call."""


def finding(least: float, cases: int, ran: Sequence[Cut], why: str) -> Finding | None:
    """Return why a result does not rank; None if its own kernels take the time that the rule asks for.

    Args:
        least: The least share of the time of its kernels, from 0 to 1, in each case.
        cases: Number of timed cases, hidden ones too.
        ran: The kernels of each case whose kernels were timed.
        why: Why there are none, if it is known.
    """
    shares = [own for each in ran if (own := own_share(*each)) is not None]
    if shares and min(shares) < least:
        text = (
            f"its own kernels take {min(shares):.0%} of the time in one case; this leaderboard asks for {least:.0%}. "
            f"The rest is {others(ran)}"
        )
        return Finding(code=BELOW, text=text, quarantines=True)
    if len(shares) == cases:
        return None
    why = why or "its kernels were not timed one by one"
    text = (
        f"this leaderboard asks that own kernels take {least:.0%} of the time, which cannot be decided: {why}"
    )
    return Finding(code=UNKNOWN, text=text, quarantines=True)


def own_share(kernels: Sequence[RanKernel], longer: float = 1.0) -> float | None:
    """Return the share of the time of kernels that no library has; None if it is not known.

    What all take longer in a row than in the call counts for no kernel of its own: one that waits beside a library's
    costs the call nothing, nor does one that takes its time when it notices that it is not the call that is timed.
    """
    if not kernels or any(each.share is None or each.origin is None for each in kernels):
        return None
    return max(0.0, 1.0 - longer * sum(each.share or 0.0 for each in kernels if each.origin))


def others(ran: Sequence[Cut]) -> str:
    """Return the names of the libraries whose kernels ran."""
    return ", ".join(sorted({each.origin for kernels, _ in ran for each in kernels if each.origin}))
