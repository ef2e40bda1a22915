"""What doubts a time: findings beside the ranked time, and the level of a run. Pure.

No finding makes a time shorter.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcup_harness.protocol import (
    Audit,
    Backend,
    CaseResult,
    Finding,
    RanKernel,
    Timing,
    TrustLevel,
    estimates,
)

BELOW, UNKNOWN = "own_share", "own_share_unknown"
Cut = tuple[Sequence[RanKernel], float]
"""The kernels of a call, and how many times as long they take in a row as in the call."""
THROTTLED_SHARE = 0.2
"""Share of discarded samples from which it is reported."""
LEVELS = (
    TrustLevel.WITNESSED,
    TrustLevel.REPLAYED,
    TrustLevel.WALL_CLOCK,
    TrustLevel.SELF_MEASURED,
)
"""From the best to the worst."""


def us(nanoseconds: float) -> str:
    """Write a time in microseconds."""
    return f"{nanoseconds / 1e3:.2f} us"


def if_wide(timing: Timing, audit: Audit, backend: Backend) -> Finding | None:
    """Return a finding if the times of a GPU differ too much for a ranking."""
    interval = estimates.sampling_interval_ns(timing)
    if backend is not Backend.CUDA or interval is None:
        return None
    reach = 1 + estimates.LARGEST_REACH
    if audit.score_ns / reach <= interval[0] and interval[1] <= audit.score_ns * reach:
        return None
    text = (
        f"its calls differ too much: the 95 % interval of {us(audit.score_ns)} is {us(interval[0])} to "
        f"{us(interval[1])}, further than {estimates.LARGEST_REACH:.0%}"
    )
    return Finding(code="wide_interval", text=text)


def throttled(kept: int, discarded: int) -> Finding | None:
    """Return a finding if many samples were taken while the device was slowed down."""
    if discarded <= THROTTLED_SHARE * (kept + discarded):
        return None
    text = f"{discarded} of {kept + discarded} samples were taken while the device was slowed down"
    return Finding(code="throttled", text=text)


def busy_device(processes: int | None, expected: int) -> Finding | None:
    """Return a finding if others used the device; None if not, or if it is not known."""
    if processes is None or processes <= expected:
        return None
    text = f"{processes - expected} other process(es) had the device open while it was measured"
    return Finding(code="busy_device", text=text)


def trust_of(cases: Sequence[CaseResult]) -> TrustLevel:
    """Return the worst level of cases; those without an audit are self-measured."""
    levels = [
        case.timing.audit.level if case.timing is not None and case.timing.audit is not None else LEVELS[-1]
        for case in cases
    ]
    return max(levels, key=LEVELS.index, default=TrustLevel.SELF_MEASURED)


def quarantine_of(cases: Sequence[CaseResult], *, reported: Sequence[Finding] = ()) -> list[Finding]:
    """Return why a run does not count although all its answers were right.

    ``reported`` has the findings reported during the run, even of unfinished cases.
    """
    of_cases = [
        finding
        for case in cases
        if case.timing is not None and case.timing.audit is not None
        for finding in case.timing.audit.findings
        if finding.quarantines
    ]
    return of_cases + [each for each in dict.fromkeys(reported) if each not in of_cases]


def own_share_finding(least: float, cases: int, ran: Sequence[Cut], why: str) -> Finding | None:
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
