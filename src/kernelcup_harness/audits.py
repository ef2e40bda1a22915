"""Compares the judge's clock with the contestant's, and decides the ranked time if they disagree. Pure.

Two measurements of the judge check a claim. The **handshake** is the time of one call whose input could
not be known before; it cannot be batched, but finds a warm cache. If the device answers alone (an
**armed** call) it is exact to a microsecond or two, else it jitters by tens. The **slope** is the
time of a call in a long series with a cold cache, but calls could be batched. A forged claim must pass
both. The allowed differences follow from measurements with a trusted contestant in the same job, never
from known attacks.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelcup_harness import estimates
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    CaseResult,
    Finding,
    NotCaptured,
    Timing,
    TrustLevel,
)

CLAIM_SHARE = 0.02
"""Share of a claim by which handshakes and slopes may differ because of the cache's state and the clock's drift."""
GAP_SHARE = 0.1
"""Share of a claim that must be gaps before any are left out: a single kernel has some hundredths."""
SIDING_NS = 1_600.0
"""How far a handshake that agrees with a single call may lie above it: the variation of handshakes between jobs, and by
chance within one, in 1 % of cases."""
LOUD_SLACK = 1.5
"""A handshake's slack of this multiple of the usual means that others disturb the machine."""
QUICK_SHARE = 0.25
NORMAL_99 = statistics.NormalDist().inv_cdf(0.99)
NORMAL_SHARE = 1.4826
"""Standard deviation over median deviation, of a normal distribution."""
MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean, of a normal distribution."""
RESAMPLES = 400
DRIFT_NS, DRIFT_SHARE = 2_000.0, 0.02
"""How much slower no-op calls may become while a job runs, and their slack by the first figure. None of 1,152 cases on
an H100 and two H200s drifted by more than 1.5 us and 2 %."""
HAND_OVER_NS = 700_000.0
"""Longest hand-over of a series: of the quickest long one in 753 honest cases 0.2 ms, 0.5 ms in 99 % of them.
"""
SLACK_LEVEL = 0.99
HANDSHAKE_PROCESS_NS = 600.0
"""Standard deviation between jobs of the same call's handshake: no-ops are made by another process. Measured with 54
kernels, each in 11 or 12 jobs on H200s: 640 ns in the median, some of it by chance within a job."""
THROTTLED_SHARE = 0.2
"""Share of discarded samples from which it is reported."""
LEVELS = (
    TrustLevel.REPLAYED,
    TrustLevel.AUDITED,
    TrustLevel.WALL_CLOCK,
    TrustLevel.BOUNDED,
    TrustLevel.SELF_MEASURED,
)
"""From the best to the worst."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One measurement of one case. Times in nanoseconds, without the time of a no-op."""

    claim_ns: float
    captured: bool
    """Whether calls were replayed from a graph."""
    not_captured: NotCaptured | None = None
    """Why calls were not captured, if that was tried."""
    armed: bool = False
    """Whether the device alone answered the handshakes."""
    refused: bool = False
    """Whether the contestant refused armed calls without a reason."""
    handshake_ns: float
    handshake_slack_ns: float
    slope_ns: float | None = None
    slope_slack_ns: float = 0.0
    slope_calls: Sequence[int] = ()
    slope_walls_ns: Sequence[Sequence[float]] = ()
    slope_is_cold: bool = True
    """Whether the ring exceeded twice the cache: a long claim leaves less time for a large ring."""
    noop_ns: float = 0.0
    """Time of a no-op call, measured in turns with the submission's calls."""
    noop_before_ns: float | None = None
    """Time of a no-op call before the submission was imported, if it is known."""

    @property
    def claim_or_slope_ns(self) -> float:
        """The longer one of claim and slope."""
        return max(self.claim_ns, self.slope_ns or 0.0)

    @property
    def has_nothing_else(self) -> bool:
        """Whether only the handshake bounds the claim; an eager call may take long to launch."""
        return not self.captured and not self.armed and self.slope_ns is None

    @property
    def handshake_proves_ns(self) -> float:
        """The least time of a call that its handshake proves.

        An eager call that is not armed is launched and then run: each part may take half of it.
        """
        over = self.handshake_ns - self.handshake_slack_ns
        halves = not self.captured and not self.armed and self.slope_ns is not None
        return over / 2 if halves else over

    @property
    def handshake_disagrees(self) -> bool:
        """Whether single calls take longer than the claim allows, or for eager calls, longer than the slope allows."""
        most = self.claim_ns if self.captured else self.claim_or_slope_ns
        return self.handshake_proves_ns > most

    @property
    def slope_disagrees(self) -> bool:
        """Whether captured calls one after another take longer than the claim; eager calls may."""
        if not self.captured or self.slope_ns is None:
            return False
        return self.slope_ns > self.claim_ns + self.slope_slack_ns

    @property
    def gap_share(self) -> float:
        """Share of a captured claim's excess over its slope that counts as gaps between launches, from 0 to 1.

        0 if the excess could be noise, 1 from twice the noise on. In between it grows with the gap, so that the
        ranked time has no jump. Calls of a ring could be batched, so the handshake has to agree with the time of a
        single call that follows from the slope.
        """
        if not self.captured or not self.slope_is_cold or self.slope_ns is None:
            return 0.0
        gap = self.claim_ns - self.slope_ns
        # The slack's share of the claim is replaced by a share of the slope: a long claim would have much slack.
        slack_ns = self.handshake_slack_ns - CLAIM_SHARE * (self.claim_ns - max(0.0, self.slope_ns))
        # Disturbances are no excuse: a submission that batches calls would gain by them.
        above_ns = min(slack_ns, SIDING_NS + CLAIM_SHARE * max(0.0, self.slope_ns))
        if self.handshake_ns > estimates.alone(self.slope_ns) + above_ns:
            return 0.0
        # Mostly constants: slacks differ between jobs, and are large if others disturb.
        noise_ns = max(
            NORMAL_99 * HANDSHAKE_PROCESS_NS + 2 * CLAIM_SHARE * self.claim_ns,
            GAP_SHARE * self.claim_ns,
            slack_ns / LOUD_SLACK,
            self.slope_slack_ns,
        )
        return min(1.0, max(0.0, gap / noise_ns - 1))

    @property
    def without_gaps_ns(self) -> float:
        """The claim without gaps, at least the time of a single call that follows from the slope.

        Otherwise adding a gap to a single kernel would give a rank below the kernel's time.
        """
        share = self.gap_share
        if not share or self.slope_ns is None:
            return self.claim_ns
        return self.claim_ns - share * max(0.0, self.claim_ns - estimates.alone(self.slope_ns))

    @property
    def is_in_doubt(self) -> bool:
        """Whether to measure again."""
        return self.handshake_disagrees or self.slope_disagrees or self.is_disturbed

    @property
    def is_disturbed(self) -> bool:
        """Whether an armed call took less than a no-op call, which something must have slowed down."""
        return self.armed and self.handshake_ns < -self.handshake_slack_ns


def decide(rounds: Sequence[Evidence], backend: Backend) -> Audit:
    """Return the ranked time, and how far it is proven.

    ``rounds`` has the first measurement, and a second one if the first was in doubt. If two of the judge's clocks
    disagree, it is unknown which is right: the result is not proven, but not held back either.
    """
    last, findings = rounds[-1], []
    often = "twice measured" if len(rounds) > 1 else "measured once"
    # A weaker measurement cannot clear what a stronger one has found.
    slopes = [each for each in rounds if each.captured] or rounds
    handshakes = [each for each in rounds if each.armed] or rounds
    # The round that is weaker evidence against the claim.
    handshake = min(handshakes, key=lambda each: each.handshake_proves_ns)
    score, level = last.claim_ns, TrustLevel.AUDITED
    if all(each.slope_disagrees for each in slopes):
        score, level = slopes[-1].claim_or_slope_ns, TrustLevel.BOUNDED
        findings.append(slope_finding(slopes[-1], often))
    elif all(each.gap_share for each in rounds):
        score = last.without_gaps_ns
    if not last.captured and last.slope_ns is not None:
        score, level = max(score, last.claim_or_slope_ns), TrustLevel.BOUNDED
        if last.not_captured is not None:
            findings.append(not_captured_finding(last.not_captured))
    if all(each.handshake_disagrees for each in handshakes):
        level = TrustLevel.BOUNDED
        if handshake.has_nothing_else:
            score = max(score, handshake.handshake_ns)
        else:
            findings.append(handshake_finding(handshake, often))
            # Without arming it is too coarse to hold a run back: the time that it proves is ranked.
            score = max(score, handshake.handshake_proves_ns)
    if any(each.refused for each in rounds):
        findings.append(REFUSED)
        level = TrustLevel.BOUNDED
    elif all(each.is_disturbed for each in handshakes):
        findings.append(DISTURBED)
        level = TrustLevel.BOUNDED
    found = Audit(
        captured=last.captured,
        armed=handshake.armed,
        handshake_ns=handshake.handshake_ns,
        handshake_slack_ns=handshake.handshake_slack_ns,
        slope_ns=last.slope_ns,
        slope_slack_ns=last.slope_slack_ns,
        slope_calls=list(last.slope_calls),
        slope_walls_ns=[list(walls) for walls in last.slope_walls_ns],
        noop_ns=handshake.noop_ns,
        noop_before_ns=handshake.noop_before_ns,
        score_ns=max(0.0, score),
        level=level,
        findings=findings,
    )
    return for_backend(found, backend, last.claim_ns)


def for_backend(found: Audit, backend: Backend, claim_ns: float) -> Audit:
    """Return an audit as it counts for a backend: on an emulated device it proves nothing."""
    if backend is Backend.EMULATED:
        return replace(found, score_ns=claim_ns, level=TrustLevel.SELF_MEASURED, findings=[])
    return found


WHY_NOT = {
    NotCaptured.WAITS: "it does something that is not permitted meanwhile, such as waiting for the device or reading "
    "from it (.item(), .cpu(), synchronize), or replaying a graph of its own",
    NotCaptured.ELSEWHERE: "it works on another stream than PyTorch's current one and does not synchronize with it",
    NotCaptured.HOST_FUNCTION: "it queues functions of the host",
    NotCaptured.RUNTIME: "it uses JAX, which queues functions of the host",
    NotCaptured.STALE: "replayed on other inputs the recording left another answer than the call; some of the work is "
    "not done on PyTorch's current stream, or not on the device",
}
"""Why a call could not be captured in a CUDA graph, in words."""

REFUSED = Finding(
    code="not_armed",
    text="a recorded call could not be queued ahead of its input, although nothing was in the way",
    quarantines=True,
)
DISAGREE = "two of our clocks disagree"
EMPTY_FLOOR = "empty_floor"
NO_TIME = Finding(
    code="no_time",
    text="the time for measuring was up before this case could be compared with the judge's clock",
)
DISTURBED = Finding(
    code="handshake_disturbed",
    text="single calls took less time than no-op calls in two measurements: something slowed the no-ops down",
)


def not_captured_finding(reason: NotCaptured) -> Finding:
    """Return the finding that launches count. The contestant picks a reason: its own text could leak inputs."""
    why = f": {WHY_NOT[reason]}" if reason in WHY_NOT else ""
    text = f"launch overhead is included: the calls could not be captured in a CUDA graph{why}"
    return Finding(code="not_captured", text=text)


def slope_finding(evidence: Evidence, often: str) -> Finding:
    """Return the finding that many calls take longer than the claim."""
    assert evidence.slope_ns is not None
    text = (
        f"{DISAGREE}: one after another its calls take {us(evidence.slope_ns)} each, {often}, but it claims "
        f"{us(evidence.claim_ns)}; {us(evidence.slope_slack_ns)} more would be within what can be measured"
    )
    return Finding(code="slope_disagrees", text=text)


def handshake_finding(evidence: Evidence, often: str) -> Finding:
    """Return the finding that single calls take longer than the claim."""
    text = (
        f"{DISAGREE}: a single call takes {us(evidence.handshake_ns)} by the judge's clock, {often}, but it claims "
        f"{us(evidence.claim_ns)}; {us(evidence.handshake_slack_ns)} more would be within what can be measured"
    )
    return Finding(code="handshake_disagrees", text=text)


def is_disagreement(finding: Finding, audit: Audit) -> bool:
    """Return whether a finding reports that two precise clocks disagree.

    A handshake that is not armed is not precise: on a virtual machine with shared cores it may be slower by 0.2 ms
    for a whole series.
    """
    return finding.code == "slope_disagrees" or (finding.code == "handshake_disagrees" and audit.armed)


def without_time(claim_ns: float, walls_ns: Sequence[float]) -> Audit:
    """Return the audit of a case for which there was no time: only the wall clock around its calls is known.

    That time is ranked, so a submission that uses up the time on purpose gains nothing by a false claim.
    """
    wall_ns = quick(walls_ns)
    return Audit(
        captured=False,
        handshake_ns=wall_ns,
        handshake_slack_ns=0.0,
        score_ns=max(claim_ns, wall_ns),
        level=TrustLevel.BOUNDED,
        findings=[NO_TIME],
    )


def us(nanoseconds: float) -> str:
    """Write a time in microseconds."""
    return f"{nanoseconds / 1e3:.2f} us"


def quick(walls_ns: Sequence[float]) -> float:
    """Return the first quartile of handshakes.

    Disturbances only lengthen them, and no call can be over before its input is known: so the quick ones
    are the most informative, and none can be forged.
    """
    return estimates.quantile(walls_ns, QUICK_SHARE)


def noop_to_take_off(noop_ns: float, before_ns: float | None) -> float:
    """Return the time of a no-op call, to subtract from handshakes.

    A submission could slow no-op calls down to look quick itself, so their time may only exceed the earlier one by
    the drift of a machine.
    """
    if before_ns is None:
        return noop_ns
    return min(noop_ns, before_ns + DRIFT_NS + DRIFT_SHARE * before_ns)


def handshake_slack(
    trusted_ns: Sequence[float], count: int, residual_ns: float, claim_ns: float, chance: random.Random
) -> float:
    """Return by how much :func:`quick` of ``count`` handshakes may exceed a claim: 1 % of cases exceed it by chance.

    Args:
        trusted_ns: Handshakes of no-op calls, around their own line.
        count: Number of handshakes of the submission.
        residual_ns: Residual of the trusted medians from their line.
        claim_ns: The claim, of which a share is slack.
        chance: For the bootstrap.
    """
    residual_ns += CLAIM_SHARE * max(0.0, claim_ns)
    if not trusted_ns or count < 1:
        return residual_ns
    middle = quick(trusted_ns)
    misses = [abs(quick(chance.choices(trusted_ns, k=count)) - middle) for _ in range(RESAMPLES)]
    # The subtracted no-op time varies as well.
    by_chance_ns = 2**0.5 * estimates.quantile(misses, SLACK_LEVEL)
    return math.hypot(by_chance_ns, NORMAL_99 * HANDSHAKE_PROCESS_NS) + residual_ns


def slope(walls_ns: Sequence[Sequence[float]], calls: Sequence[int], *, captured: bool) -> float:
    """Return the steady-state time of a call.

    The difference of a long and a short series, for each call, at least what the long series alone allows: slow
    short series do not make calls quicker.

    Args:
        walls_ns: Wall-clock times of the short series, and of the long ones.
        calls: Number of calls of a short and of a long series.
        captured: Whether calls were replayed from a graph.
    """
    alone_ns = (min(walls_ns[1]) - HAND_OVER_NS) / calls[1]
    pairs_ns = estimates.slopes(walls_ns, calls, quick=captured)
    # Eager series include the host's delays: one of three may be off by a factor of ten.
    middle_ns = estimates.robust(pairs_ns) if captured else statistics.median(pairs_ns)
    return max(middle_ns, alone_ns)


def slope_slack(
    trusted_slopes_ns: Sequence[float], gap_ns: float, claim_ns: float, *, calls_share: float = 1.0
) -> float:
    """Return by how much a slope may exceed a claim.

    Args:
        trusted_slopes_ns: Slopes of a kernel of known length, one for each pair of series.
        gap_ns: How much longer its calls take in a series than alone, for the step from one call to the next.
        claim_ns: The claim, of which a share is slack.
        calls_share: Calls of its long series beyond a short one, over those of the case: a disturbance of a series
            is shared by its calls.
    """
    by_chance_ns = 0.0
    if (count := len(trusted_slopes_ns)) > 1:
        # One disturbed series must not excuse everything.
        middle = statistics.median(trusted_slopes_ns)
        sigma_ns = NORMAL_SHARE * statistics.median(abs(each - middle) for each in trusted_slopes_ns)
        # A slope is the mean of at least this many pairs, and the gap is from a median.
        in_slope, in_gap = calls_share / math.sqrt(estimates.FEWEST_SLOPES), MEDIAN_ERROR / math.sqrt(count)
        by_chance_ns = 3 * sigma_ns * math.hypot(in_slope, in_gap)
    # Claims use other places in memory than the ring.
    places_ns = NORMAL_99 * math.hypot(estimates.PROCESS_NS, estimates.PROCESS_SHARE * claim_ns)
    return gap_ns + math.hypot(by_chance_ns, places_ns) + CLAIM_SHARE * claim_ns


def at_least(audit: Audit, floor_ns: float) -> Audit:
    """Return an audit whose score is at least the time of an empty call; shorter scores tie there."""
    if audit.score_ns >= floor_ns:
        return audit
    text = f"no more than an empty kernel takes: ranked as <= {us(floor_ns)}"
    return replace(audit, score_ns=floor_ns, findings=[*audit.findings, Finding(code=EMPTY_FLOOR, text=text)])


def if_known(timing: Timing, audit: Audit, backend: Backend) -> Audit:
    """Return the audit; a GPU time whose scatter is too large for a ranking is not proven."""
    found = timing.sampling_interval_ns
    at_floor = any(each.code == EMPTY_FLOOR for each in audit.findings)
    if backend is not Backend.CUDA or found is None or at_floor:
        return audit
    least, most = (
        audit.score_ns / (1 + estimates.LARGEST_REACH),
        audit.score_ns * (1 + estimates.LARGEST_REACH),
    )
    if least <= found[0] and found[1] <= most:
        return audit
    text = (
        f"its calls differ too much: the 95 % interval of {us(audit.score_ns)} is {us(found[0])} to {us(found[1])}, "
        f"further than {estimates.LARGEST_REACH:.0%}"
    )
    level = max(audit.level, TrustLevel.BOUNDED, key=LEVELS.index)
    return replace(audit, level=level, findings=[*audit.findings, Finding(code="wide_interval", text=text)])


def with_findings(audit: Audit, more: Iterable[Finding | None]) -> Audit:
    """Return an audit with further findings."""
    return replace(audit, findings=[*audit.findings, *(each for each in more if each is not None)])


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


def quarantine_of(cases: Sequence[CaseResult], *, found: Sequence[Finding] = ()) -> list[Finding]:
    """Return why a run does not count although all its answers were right.

    ``found`` has the findings reported during the run, even of unfinished cases.
    """
    of_cases = [
        finding
        for case in cases
        if case.timing is not None and case.timing.audit is not None
        for finding in case.timing.audit.findings
        if finding.quarantines
    ]
    return of_cases + [each for each in dict.fromkeys(found) if each not in of_cases]
