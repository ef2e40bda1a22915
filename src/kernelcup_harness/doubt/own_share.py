"""A leaderboard's rule about whose kernels take the time, decided by what ran. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcup_harness.protocol import Finding, RanKernel

BELOW, UNKNOWN = "own_share", "own_share_unknown"


def finding(least: float, cases: int, ran: Sequence[Sequence[RanKernel]], why: str) -> Finding | None:
    """Return why a result does not rank; None if its own kernels take the time that the rule asks for.

    Args:
        least: The least share of the time of its kernels, from 0 to 1, in each case.
        cases: Number of timed cases, hidden ones too.
        ran: The kernels of each case whose kernels were timed.
        why: Why there are none, if it is known.
    """
    shares = [own for own in map(own_share, ran) if own is not None]
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


def own_share(kernels: Sequence[RanKernel]) -> float | None:
    """Return the share of the time of kernels that no library has; None if it is not known."""
    if not kernels or any(each.share is None or each.origin is None for each in kernels):
        return None
    return sum(each.share or 0.0 for each in kernels if not each.origin)


def others(ran: Sequence[Sequence[RanKernel]]) -> str:
    """Return the names of the libraries whose kernels ran."""
    return ", ".join(sorted({each.origin for kernels in ran for each in kernels if each.origin}))
