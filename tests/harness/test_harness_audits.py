"""What doubts a time: findings beside the ranked time, and the level of a run."""

from __future__ import annotations

import pytest

from kernelcup_harness.core.judge import with_findings
from kernelcup_harness.doubt import findings as audits
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    CaseResult,
    Finding,
    Timing,
    TrustLevel,
    Verdict,
)

NOTE = Finding(code="near_floor", text="y")
BAD = Finding(code="below_floor", text="x", quarantines=True)
REPLAYED = Audit(captured=True, score_ns=20e3, level=TrustLevel.REPLAYED)
TIMED = Timing(samples_ns=[20e3], audit=REPLAYED)


def audit_of(timing: Timing) -> Audit:
    """Return the audit of a ranked time."""
    assert timing.audit is not None
    return timing.audit


@pytest.mark.parametrize(("discarded", "found"), [(0, False), (20, False), (30, True), (100, True)])
def test_many_samples_of_a_slow_device_are_a_finding(discarded: int, found: bool) -> None:
    assert (audits.throttled(80, discarded) is not None) is found


def test_a_finding_of_a_slow_device_says_how_many_samples_do_not_count() -> None:
    found = Finding(code="throttled", text="40 of 100 samples were taken while the device was slowed down")
    assert audits.throttled(60, 40) == found


@pytest.mark.parametrize(("processes", "found"), [(None, False), (3, False), (4, True)])
def test_a_second_process_on_the_device_is_a_finding(processes: int | None, found: bool) -> None:
    assert (audits.busy_device(processes, 3) is not None) is found


def test_further_findings_follow_those_that_are_there() -> None:
    first = with_findings(TIMED, [NOTE])
    assert audit_of(first).findings == [NOTE]
    assert audit_of(with_findings(first, [BAD])).findings == [NOTE, BAD]
    assert REPLAYED.findings == []


# The level of a run


def case(level: TrustLevel | None, *findings: Finding) -> CaseResult:
    """Return an accepted case."""
    audit = Audit(score_ns=1.0, level=level, findings=list(findings)) if level is not None else None
    timing = Timing(samples_ns=[1.0], audit=audit)
    return CaseResult(index=0, parameters={}, verdict=Verdict.ACCEPTED, timing=timing)


def test_a_run_is_trusted_as_far_as_its_worst_case() -> None:
    replayed, called = case(TrustLevel.REPLAYED), case(TrustLevel.WALL_CLOCK)
    assert audits.trust_of([replayed, replayed]) is TrustLevel.REPLAYED
    assert audits.trust_of([replayed, called, replayed]) is TrustLevel.WALL_CLOCK
    assert audits.trust_of([called, case(None)]) is TrustLevel.SELF_MEASURED
    untimed = CaseResult(index=0, parameters={}, verdict=Verdict.ACCEPTED)
    assert audits.trust_of([untimed, replayed]) is TrustLevel.SELF_MEASURED
    assert audits.trust_of([]) is TrustLevel.SELF_MEASURED


def test_every_level_has_a_rank() -> None:
    assert sorted(audits.LEVELS) == sorted(TrustLevel)


def test_only_findings_that_quarantine_do() -> None:
    assert audits.quarantine_of([case(TrustLevel.REPLAYED, BAD, NOTE)]) == [BAD]
    assert audits.quarantine_of([case(TrustLevel.REPLAYED, NOTE), case(None)]) == []


def test_a_finding_of_an_unfinished_case_quarantines_once() -> None:
    other = Finding(code="below_floor", text="of another case", quarantines=True)
    found = audits.quarantine_of([case(TrustLevel.REPLAYED, BAD)], reported=[BAD, other, other])
    assert found == [BAD, other]


# Intervals that are too wide


def scattered(share: float, backend: Backend = Backend.CUDA, *, offset_ns: float = 0.0) -> Finding | None:
    """Return what is found of a case whose calls take so much more or less than 20 us in turns."""
    samples_ns = [20e3 * (1 - share) + offset_ns, 20e3 * (1 + share) + offset_ns] * 10
    timing = Timing(samples_ns=samples_ns, offset_ns=offset_ns, audit=REPLAYED)
    return audits.if_wide(timing, REPLAYED, backend)


def test_a_time_with_a_wide_interval_says_so() -> None:
    found = scattered(0.6)
    assert found is not None
    assert (found.code, found.quarantines) == ("wide_interval", False)
    assert found.text.startswith("its calls differ too much: the 95 % interval of 20.00 us is ")
    assert found.text.endswith("further than 5%")
    assert scattered(0.02) is None
    assert audits.if_wide(Timing(samples_ns=[30e3], audit=REPLAYED), REPLAYED, Backend.CUDA) is None


@pytest.mark.parametrize(("share", "found"), [(0.05, False), (0.15, True)])
def test_what_is_wide_is_a_share_of_the_ranked_time(share: float, found: bool) -> None:
    """The samples include an empty graph's time, of which the same scatter would be a small share."""
    assert (scattered(share, offset_ns=100e3) is not None) is found


@pytest.mark.parametrize("backend", [Backend.CPU, Backend.EMULATED])
def test_times_of_other_devices_than_gpus_may_scatter(backend: Backend) -> None:
    assert scattered(0.6, backend) is None
