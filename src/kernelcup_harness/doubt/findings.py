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
    Timing,
    TrustLevel,
    estimates,
)

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
