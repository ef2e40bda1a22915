"""Decisions about times: claims, handshakes, slopes and floors."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kernelcup_harness import audits, estimates, trusted
from kernelcup_harness.audits import Evidence, decide, is_disagreement
from kernelcup_harness.estimates import alone
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    CaseResult,
    Finding,
    Timing,
    TrustLevel,
    Verdict,
)

CUDA = Backend.CUDA


def evidence(**changes: Any) -> Evidence:
    """Return a captured case of 20 us in which all agree."""
    values: dict[str, Any] = {
        "claim_ns": 20e3,
        "captured": True,
        "handshake_ns": 21e3,
        "handshake_slack_ns": 5e3,
        "slope_ns": 20.2e3,
        "slope_slack_ns": 1e3,
    }
    return Evidence(**(values | changes))


def codes(audit: Audit) -> list[str]:
    """Return the codes of what was found."""
    return [finding.code for finding in audit.findings]


def test_a_captured_claim_that_agrees_is_the_score() -> None:
    audit = decide([evidence()], CUDA)
    assert (audit.score_ns, audit.level, audit.findings) == (20e3, TrustLevel.AUDITED, [])


def test_a_low_slope_does_not_lower_the_score() -> None:
    """Calls may be done together there."""
    assert decide([evidence(slope_ns=2e3)], CUDA).score_ns == 20e3


def test_a_slope_above_the_claim_is_measured_once_more() -> None:
    assert evidence(slope_ns=21.1e3).is_in_doubt
    assert not evidence(slope_ns=20.9e3).is_in_doubt


def test_a_slope_that_agrees_the_second_time_is_fine() -> None:
    audit = decide([evidence(slope_ns=30e3), evidence()], CUDA)
    assert (audit.score_ns, audit.findings) == (20e3, [])


def is_not_proven(audit: Audit) -> bool:
    """Tell whether the clocks disagree, which holds nothing back, and what is said of it."""
    (finding,) = audit.findings
    assert finding.text.startswith("two of our clocks disagree: ")
    return audit.level is TrustLevel.BOUNDED and not finding.quarantines and is_disagreement(finding, audit)


@pytest.mark.first_contact(6, "a slope that disagrees with the claim is a flag and a sentence, no quarantine")
def test_a_slope_that_disagrees_twice_is_not_proven_and_is_the_score() -> None:
    audit = decide([evidence(slope_ns=40e3), evidence(slope_ns=41e3)], CUDA)
    assert audit.score_ns == 41e3
    assert codes(audit) == ["slope_disagrees"]
    assert is_not_proven(audit)
    assert "41.00 us each, twice measured" in audit.findings[0].text
    (once,) = decide([evidence(slope_ns=40e3)], CUDA).findings
    assert "40.00 us each, measured once" in once.text


@pytest.mark.first_contact(
    6, "a handshake that disagrees with the claim is a flag and a sentence, no quarantine"
)
def test_an_armed_handshake_that_disagrees_twice_is_not_proven() -> None:
    doubtful = evidence(handshake_ns=26e3, armed=True)
    assert doubtful.is_in_doubt
    audit = decide([doubtful, doubtful], CUDA)
    assert (codes(audit), audit.level, audit.armed) == (["handshake_disagrees"], TrustLevel.BOUNDED, True)
    assert is_not_proven(audit)
    assert decide([doubtful, evidence(armed=True)], CUDA).findings == []


def test_a_second_round_that_proves_less_acquits_of_nothing() -> None:
    armed = evidence(claim_ns=10e3, handshake_ns=20e3, handshake_slack_ns=1e3, slope_ns=10e3, armed=True)
    coarse = evidence(claim_ns=10e3, handshake_ns=20e3, handshake_slack_ns=15e3, slope_ns=10e3)
    audit = decide([armed, coarse], CUDA)
    assert (codes(audit), audit.level, audit.score_ns) == (["handshake_disagrees"], TrustLevel.BOUNDED, 19e3)
    assert is_not_proven(audit)
    long = evidence(slope_ns=40e3)
    eager = evidence(slope_ns=15e3, captured=False)
    audit = decide([long, eager], CUDA)
    assert (codes(audit), audit.score_ns) == (["slope_disagrees"], 40e3)


def test_a_recorded_call_that_is_not_armed_is_held_back() -> None:
    audit = decide([evidence(refused=True)], CUDA)
    assert (codes(audit), audit.level) == (["not_armed"], TrustLevel.BOUNDED)
    assert audit.findings[0].quarantines


def test_an_armed_call_that_takes_less_than_nothing_was_disturbed() -> None:
    odd = evidence(handshake_ns=-6e3, armed=True)
    assert odd.is_in_doubt
    assert not evidence(handshake_ns=-4e3, armed=True).is_in_doubt
    audit = decide([odd, odd], CUDA)
    assert (codes(audit), audit.level) == (["handshake_disturbed"], TrustLevel.BOUNDED)
    assert decide([odd, evidence(armed=True)], CUDA).findings == []


def test_an_armed_eager_call_has_no_time_to_be_launched() -> None:
    """Two slopes would be allowed if it were called after the word."""
    eager = {"captured": False, "slope_ns": 20e3, "handshake_ns": 30e3}
    assert not evidence(**eager).handshake_disagrees
    assert evidence(**eager, armed=True).handshake_disagrees
    assert is_not_proven(decide([evidence(**eager, armed=True)] * 2, CUDA))
    single = evidence(**(eager | {"slope_ns": None}), armed=True)
    assert is_not_proven(decide([single] * 2, CUDA))


USUAL = {"handshake_ns": 12e3, "handshake_slack_ns": 2e3, "slope_slack_ns": 700.0}


def test_a_slope_is_the_time_only_where_it_is_far_below_the_claim() -> None:
    # What handshakes differ by between jobs, and two hundredths of the claim twice: 2.2 us of 20.
    def score_ns(slope_ns: float, **changed: float) -> float:
        return decide([evidence(**USUAL | {"claim_ns": 20e3} | changed, slope_ns=slope_ns)], CUDA).score_ns

    assert score_ns(17.9e3) == 20e3
    assert score_ns(15.5e3) == alone(15.5e3)
    # The handshake has to side with it, as far as a call alone takes longer.
    assert score_ns(15.5e3, handshake_ns=alone(15.5e3) + 1.8e3) == alone(15.5e3)
    assert score_ns(15.5e3, handshake_ns=alone(15.5e3) + 2.1e3) == 20e3
    # However much others disturb.
    assert score_ns(15.5e3, handshake_ns=alone(15.5e3) + 2.1e3, handshake_slack_ns=3e3) == 20e3


@pytest.mark.parametrize("claim_ns", [20e3, 30e3, 60e3, 200e3])
@pytest.mark.parametrize("slack_ns", [2e3, 4e3])
def test_who_does_calls_together_gains_little_by_what_cannot_be_told(
    claim_ns: float, slack_ns: float
) -> None:
    # The cache makes no difference to it: the handshake takes as long as the claim.
    slack_ns += 0.02 * (claim_ns - 20e3)
    scores = [
        decide(
            [
                evidence(
                    claim_ns=claim_ns,
                    handshake_ns=claim_ns,
                    handshake_slack_ns=slack_ns,
                    slope_ns=claim_ns - gap_ns,
                    slope_slack_ns=700.0,
                )
            ],
            CUDA,
        ).score_ns
        for gap_ns in range(0, int(claim_ns / 2), 100)
    ]
    assert min(scores) > 0.95 * claim_ns


def test_what_is_ranked_does_not_jump_where_gaps_begin_to_count() -> None:
    slopes_ns = [20e3 - 10.0 * step for step in range(900)]
    scores = [decide([evidence(**USUAL, claim_ns=20e3, slope_ns=ns)], CUDA).score_ns for ns in slopes_ns]
    assert scores[0] == 20e3
    assert scores[-1] == alone(slopes_ns[-1])
    assert scores == sorted(scores, reverse=True)
    # Ten nanoseconds of the slope are no more than thirty of the score.
    assert max(before - after for before, after in itertools.pairwise(scores)) < 30.0


def test_what_is_ranked_does_not_jump_with_the_slack_of_a_job() -> None:
    def score_ns(slack_ns: float) -> float:
        found = evidence(**USUAL | {"handshake_slack_ns": slack_ns}, claim_ns=11.3e3, slope_ns=7.2e3)
        return decide([replace(found, handshake_ns=5.1e3)], CUDA).score_ns

    scores = [score_ns(10.0 * step) for step in range(150, 700)]
    assert {score_ns(1.6e3), score_ns(2.1e3), score_ns(2.6e3)} == {alone(7.2e3)}
    assert scores[-1] == 11.3e3
    assert max(abs(before - after) for before, after in itertools.pairwise(scores)) < 30.0


def test_a_gap_of_no_length_is_ranked_below_a_call_alone() -> None:
    for gap_ns in range(0, 20_000, 100):
        found = evidence(**USUAL | {"handshake_ns": 5e3}, claim_ns=alone(10e3) + gap_ns, slope_ns=10e3)
        assert decide([found], CUDA).score_ns >= alone(10e3) - 1e-6


@pytest.mark.parametrize("slope_ns", [2e3, -10.0])
def test_who_claims_much_has_no_more_slack_for_a_forged_slope(slope_ns: float) -> None:
    # A share of the claim is in the slack: of one of 15 ms 300 us.
    much = evidence(claim_ns=15e6, handshake_ns=16e3, handshake_slack_ns=1e3 + 0.02 * 15e6, slope_ns=slope_ns)
    assert decide([much], CUDA).score_ns == 15e6
    assert decide([replace(much, slope_ns=15.8e3)], CUDA).score_ns == alone(15.8e3)


def test_who_adds_a_gap_to_a_kernel_is_not_ranked_below_its_time() -> None:
    # A sum of 2048 x 2048 floats on an H100: by its claim, and with a wait of 0.3 ms before it.
    measured = {
        "handshake_ns": 10.7e3,
        "handshake_slack_ns": 1.5e3,
        "slope_ns": 18.2e3,
        "slope_slack_ns": 650.0,
    }
    honest, waits = evidence(**measured, claim_ns=19.8e3), evidence(**measured, claim_ns=325e3)
    assert decide([honest], CUDA).score_ns == 19.8e3
    assert decide([waits], CUDA).score_ns == pytest.approx(19.8e3, rel=0.03)
    # Short ones take less beyond: the claim is never exceeded.
    short = evidence(
        claim_ns=1.5e3, handshake_ns=0.0, handshake_slack_ns=100.0, slope_ns=1e3, slope_slack_ns=0.0
    )
    assert decide([short], CUDA).score_ns == 1.5e3


def test_a_slope_whose_ring_is_in_the_cache_is_not_ranked() -> None:
    near = USUAL | {"claim_ns": 20e3, "handshake_ns": 10e3, "slope_ns": 10e3}
    assert decide([evidence(**near)], CUDA).score_ns == alone(10e3)
    assert decide([evidence(**near, slope_is_cold=False)], CUDA).score_ns == 20e3


def test_a_handshake_that_disagrees_twice_is_told_and_costs_the_proof() -> None:
    doubtful = evidence(handshake_ns=40e3)
    assert doubtful.is_in_doubt
    audit = decide([doubtful, doubtful], CUDA)
    assert (codes(audit), audit.level) == (["handshake_disagrees"], TrustLevel.BOUNDED)
    assert not audit.findings[0].quarantines
    again = decide([doubtful, evidence()], CUDA)
    assert (codes(again), again.level) == ([], TrustLevel.AUDITED)


@pytest.mark.parametrize(
    ("handshake_ns", "slack_ns", "score_ns"),
    [
        pytest.param(11e3, 4e3, alone(10e3), id="the handshake sides with the slope"),
        pytest.param(19e3, 4e3, 20e3, id="it sides with the claim: calls were done together"),
        pytest.param(11e3, 16e3, 20e3, id="it cannot tell"),
    ],
)
def test_a_captured_slope_below_the_claim_counts_where_the_handshake_says_so(
    handshake_ns: float, slack_ns: float, score_ns: float
) -> None:
    found = evidence(slope_ns=10e3, handshake_ns=handshake_ns, handshake_slack_ns=slack_ns)
    audit = decide([found], CUDA)
    assert (audit.score_ns, audit.level, audit.findings) == (score_ns, TrustLevel.AUDITED, [])


def test_an_eager_case_scores_its_slope_launches_included() -> None:
    audit = decide([evidence(captured=False, slope_ns=35e3, handshake_ns=50e3)], CUDA)
    assert (audit.score_ns, audit.level, audit.findings) == (35e3, TrustLevel.BOUNDED, [])


def test_an_eager_case_is_not_quarantined_for_its_slope() -> None:
    assert not evidence(captured=False, slope_ns=90e3).slope_disagrees


def test_an_eager_call_cannot_take_more_than_two_slopes() -> None:
    eager = evidence(captured=False, slope_ns=35e3, handshake_ns=76e3)
    assert eager.handshake_disagrees
    assert codes(decide([eager, eager], CUDA)) == ["handshake_disagrees"]
    assert not evidence(captured=False, slope_ns=35e3, handshake_ns=74e3).handshake_disagrees


def test_without_a_slope_a_handshake_that_agrees_is_proof_enough() -> None:
    audit = decide([evidence(captured=False, slope_ns=None)], CUDA)
    assert (audit.score_ns, audit.level) == (20e3, TrustLevel.AUDITED)


def test_without_a_slope_a_long_handshake_is_the_score() -> None:
    slow = evidence(captured=False, slope_ns=None, handshake_ns=60e3)
    audit = decide([slow, slow], CUDA)
    assert (audit.score_ns, audit.level, audit.findings) == (60e3, TrustLevel.BOUNDED, [])


def test_where_a_handshake_is_too_coarse_to_hold_a_run_back_what_it_proves_is_ranked() -> None:
    """An eager call that waits for the device may have been batched in the ring, and its clock be forged."""
    eager = {"captured": False, "slope_ns": 10e3, "handshake_slack_ns": 10e3}
    rounds = [evidence(**eager, handshake_ns=each) for each in (160e3, 130e3)]
    audit = decide(rounds, CUDA)
    assert audit.score_ns == 60e3
    assert not audit.findings[0].quarantines
    captured = [evidence(handshake_ns=each) for each in (40e3, 50e3)]
    assert decide(captured, CUDA).score_ns == 35e3


def test_emulated_times_are_never_quarantined() -> None:
    bad = evidence(slope_ns=90e3, handshake_ns=90e3)
    audit = decide([bad, bad], Backend.EMULATED)
    assert (audit.score_ns, audit.level, audit.findings) == (20e3, TrustLevel.SELF_MEASURED, [])


# Slack


def test_the_slack_of_handshakes_grows_with_their_jitter_and_shrinks_with_their_number() -> None:
    chance = random.Random(1)
    quiet = [chance.gauss(100e3, 1e3) for _ in range(60)]
    loud = [chance.gauss(100e3, 9e3) for _ in range(60)]

    def slack(walls: list[float], count: int) -> float:
        return audits.handshake_slack(walls, count, 0.0, 0.0, random.Random(2))

    assert slack(quiet, 20) < slack(loud, 20)
    assert slack(quiet, 60) < slack(quiet, 5)


def test_one_in_a_hundred_medians_misses_by_more_than_the_slack() -> None:
    chance = random.Random(4)
    missed = 0
    for _ in range(200):
        trusted = [chance.gauss(0, 10) for _ in range(40)]
        slack = audits.handshake_slack(trusted, 40, 0.0, 0.0, chance)
        honest = sorted(chance.gauss(0, 10) for _ in range(40))[20]
        missed += honest - sorted(trusted)[20] > slack
    assert missed <= 8


def test_the_residual_of_the_calibration_is_slack_too() -> None:
    quiet, residual = (audits.handshake_slack([5.0] * 9, 9, ns, 0.0, random.Random(0)) for ns in (0.0, 700.0))
    assert residual == pytest.approx(quiet + 700.0)
    assert audits.handshake_slack([], 9, 700.0, 0.0, random.Random(0)) == 700.0


def test_what_handshakes_differ_by_between_processes_is_slack_too() -> None:
    # However quiet a job is: 640 ns of deviation were seen between jobs.
    quiet = audits.handshake_slack([5.0] * 9, 9, 0.0, 0.0, random.Random(0))
    assert quiet == pytest.approx(2.33 * audits.HANDSHAKE_PROCESS_NS, rel=0.01)
    chance = random.Random(3)
    loud = audits.handshake_slack([chance.gauss(0, 3e3) for _ in range(20)], 20, 0.0, 0.0, chance)
    assert quiet < loud < quiet + 2 * 3e3


def test_a_share_of_the_claim_is_slack_of_handshakes_too() -> None:
    assert audits.handshake_slack([], 9, 700.0, 100e3, random.Random(0)) == 2700.0


QUIET = [20e3] * 6
"""Trusted slopes that chance has no part in."""


def test_between_two_calls_among_many_is_what_trusted_ones_have_there() -> None:
    without = audits.slope_slack(QUIET, 0.0, 10e3)
    assert audits.slope_slack(QUIET, 330.0, 10e3) == pytest.approx(without + 330)


def test_a_share_of_the_claim_and_what_places_in_memory_make_of_it_is_slack_of_slopes() -> None:
    places = 2.326 * math.hypot(80.0, 0.004 * 30e3)
    assert audits.slope_slack(QUIET, 0.0, 30e3) == pytest.approx(600 + places, rel=1e-3)
    assert audits.slope_slack([], 0.0, 0.0) == pytest.approx(2.326 * 80, rel=1e-3)


LOUD = [20e3, 21e3, 19e3]
SIGMA = 1_482.6


def test_the_noise_of_a_series_is_shared_by_its_calls() -> None:
    # Of a slope, which is the mean of two, and of the median that the gap is from.
    of_gap = 1.2533 / math.sqrt(3)
    for share in (4.0, 1.0, 0.25):
        by_chance = 3 * SIGMA * math.hypot(share / math.sqrt(2), of_gap)
        expected = pytest.approx(math.hypot(by_chance, 2.326 * 80), rel=1e-3)
        assert audits.slope_slack(LOUD, 0.0, 0.0, calls_share=share) == expected


@pytest.mark.parametrize("noise_ns", [5e3, 50e3, 150e3])
@pytest.mark.parametrize("claim_ns", [3e3, 10e3, 30e3, 100e3])
def test_whatever_disturbs_series_honest_ones_hardly_ever_disagree(noise_ns: float, claim_ns: float) -> None:
    chance, gap_ns = random.Random(f"{noise_ns} {claim_ns}"), 330.0

    def walls(ns: float, calls: Sequence[int], pairs: int) -> list[list[float]]:
        return [[ns * count + chance.expovariate(1 / noise_ns) for _ in range(pairs)] for count in calls]

    long = round(20e6 / claim_ns)
    calls, ring = (long // 4, long), tuple(trusted.RING_CALLS * passes for passes in trusted.RING_PASSES)
    alarms = 0
    for _ in range(300):
        known = estimates.slopes(walls(20e3 + gap_ns, ring, trusted.RING_REPEATS), ring)
        found_gap_ns = max(0.0, statistics.median(known) - 20e3)
        share = trusted.RING_SPREAD / (calls[1] - calls[0])
        slack = audits.slope_slack(known, found_gap_ns, claim_ns, calls_share=share)
        slope = audits.slope(walls(claim_ns + gap_ns, calls, 3), calls, captured=True)
        alarms += evidence(claim_ns=claim_ns, slope_ns=slope, slope_slack_ns=slack).slope_disagrees
    # That is one look of two.
    assert alarms <= 3


def test_a_product_that_works_hard_disagrees_with_no_claim() -> None:
    # Of 43 honest runs of one on an H200, that with the longest slope: it was quarantined once, with 867 ns.
    slack = audits.slope_slack(
        [20_780.0, 20_800.0, 20_790.0] * 2, 280.0, 29_374.0, calls_share=trusted.RING_SPREAD / 528
    )
    assert 30_418.0 - 29_374.0 < 0.9 * slack < 0.05 * 29_374.0


def test_one_disturbed_series_does_not_widen_the_slack_of_slopes() -> None:
    calm, disturbed = [100.0, 101.0, 99.0, 100.5, 99.5], [100.0, 101.0, 99.0, 100.5, 9000.0]
    assert audits.slope_slack(disturbed, 0.0, 0.0) < 3 * audits.slope_slack(calm, 0.0, 0.0)


# Floors and findings


def test_below_an_empty_kernel_all_tie_there() -> None:
    audit = decide([evidence(claim_ns=300.0, handshake_ns=0.0, slope_ns=100.0)], CUDA)
    floored = audits.at_least(audit, 800.0)
    assert floored.score_ns == 800.0
    assert codes(floored) == ["empty_floor"]
    assert not floored.findings[0].quarantines
    assert audits.at_least(audit, 200.0) is audit


@pytest.mark.parametrize(("discarded", "found"), [(0, False), (20, False), (30, True), (100, True)])
def test_many_samples_of_a_slow_device_are_told(discarded: int, found: bool) -> None:
    assert (audits.throttled(80, discarded) is not None) is found


@pytest.mark.parametrize(("processes", "found"), [(None, False), (3, False), (4, True)])
def test_a_second_process_on_the_device_is_told(processes: int | None, found: bool) -> None:
    assert (audits.busy_device(processes, 3) is not None) is found


def case(level: TrustLevel | None, *findings: Finding) -> CaseResult:
    """Return an accepted case."""
    audit = None
    if level is not None:
        audit = Audit(
            captured=True,
            handshake_ns=1.0,
            handshake_slack_ns=1.0,
            score_ns=1.0,
            level=level,
            findings=list(findings),
        )
    timing = Timing(samples_ns=[1.0], audit=audit)
    return CaseResult(index=0, parameters={}, verdict=Verdict.ACCEPTED, timing=timing)


def test_a_run_is_trusted_as_far_as_its_worst_case() -> None:
    audited, bounded = case(TrustLevel.AUDITED), case(TrustLevel.BOUNDED)
    assert audits.trust_of([audited, audited]) is TrustLevel.AUDITED
    assert audits.trust_of([audited, bounded]) is TrustLevel.BOUNDED
    assert audits.trust_of([bounded, case(None)]) is TrustLevel.SELF_MEASURED
    assert audits.trust_of([]) is TrustLevel.SELF_MEASURED


def test_only_findings_that_quarantine_do() -> None:
    bad = Finding(code="slope_disagrees", text="x", quarantines=True)
    note = Finding(code="near_floor", text="y")
    assert audits.quarantine_of([case(TrustLevel.AUDITED, bad, note)]) == [bad]
    assert audits.quarantine_of([case(TrustLevel.AUDITED, note)]) == []


@pytest.mark.parametrize(
    ("noop_us", "before_us", "taken_off_us"),
    [
        pytest.param(50.0, None, 50.0, id="nothing known"),
        pytest.param(52.0, 50.0, 52.0, id="a machine that drifts"),
        pytest.param(40.0, 50.0, 40.0, id="quicker than before"),
        pytest.param(60.0, 50.0, 53.0, id="slowed down"),
        pytest.param(205.0, 200.0, 205.0, id="a share of what is long"),
        pytest.param(260.0, 200.0, 206.0, id="more than a share"),
    ],
)
def test_calls_that_do_nothing_cannot_be_slowed_down(
    noop_us: float, before_us: float | None, taken_off_us: float
) -> None:
    before_ns = before_us * 1e3 if before_us is not None else None
    assert audits.noop_to_take_off(noop_us * 1e3, before_ns) == taken_off_us * 1e3


def test_calls_that_do_nothing_are_taken_off_without_a_jump() -> None:
    limit = 10_000.0 + audits.DRIFT_NS + audits.DRIFT_SHARE * 10_000.0
    below, above = (audits.noop_to_take_off(limit + more, 10_000.0) for more in (-1.0, 1.0))
    assert 0 <= above - below <= 2


def series(call_ns: float, over_ns: float, *, waits_ns: float = 0.0) -> list[list[float]]:
    """Return three short and three long series of 100 and 400 calls; short ones may wait besides."""
    return [[100 * call_ns + over_ns + waits_ns] * 3, [400 * call_ns + over_ns] * 3]


def test_a_slope_is_what_a_long_series_has_beyond_a_short_one() -> None:
    assert audits.slope(series(50e3, 0.3e6), [100, 400], captured=True) == pytest.approx(50e3)


def test_short_series_that_wait_hide_little_of_a_call() -> None:
    waiting = series(50e3, 0.3e6, waits_ns=7e6)
    assert max(estimates.slopes(waiting, [100, 400])) < 27e3
    # A fiftieth, by 20 ms of a long series.
    assert audits.slope(waiting, [100, 400], captured=True) == pytest.approx(49e3)
    assert audits.slope(waiting, [100, 400], captured=False) == pytest.approx(49e3)


def test_a_hand_over_as_it_is_raises_no_slope() -> None:
    assert audits.slope(series(50e3, audits.HAND_OVER_NS), [100, 400], captured=True) == pytest.approx(50e3)


def test_one_pair_that_the_host_disturbed_does_not_make_an_eager_slope() -> None:
    short, long = [8 * 42e3, 8 * 45e3, 8 * 43e3], [32 * 42e3, 32 * 590e3, 32 * 44e3]
    assert audits.slope([short, long], [8, 32], captured=False) == pytest.approx(44.3e3, rel=0.01)


# Intervals that are too wide


def scattered(share: float, **more: Any) -> Audit:
    """Return the audit of a case whose calls take so much more or less than 20 us in turns."""
    samples_ns = [20e3 * (1 - share), 20e3 * (1 + share)] * 10
    backend = more.pop("backend", CUDA)
    audit = audits.with_findings(decide([evidence()], CUDA), more.pop("findings", []))
    return audits.if_known(Timing(samples_ns=samples_ns, audit=audit), audit, backend)


@pytest.mark.first_contact(25, "a time whose interval reaches further than 5 % is not called audited")
def test_a_time_with_a_wide_interval_is_not_proven_and_says_why() -> None:
    audit = scattered(0.6)
    assert (audit.level, codes(audit)) == (TrustLevel.BOUNDED, ["wide_interval"])
    assert audit.findings[0].text.startswith("its calls differ too much: the 95 % interval of 20.00 us is ")
    assert audits.quarantine_of([case(TrustLevel.BOUNDED, *audit.findings)]) == []


@pytest.mark.first_contact(25, "a time whose interval is narrow stays audited")
def test_a_time_with_a_narrow_interval_stays_audited() -> None:
    assert scattered(0.02).level is TrustLevel.AUDITED


@pytest.mark.first_contact(25, "times of a device without a GPU are not touched by the cap")
@pytest.mark.parametrize("backend", [Backend.CPU, Backend.EMULATED])
def test_times_of_other_devices_than_gpus_may_scatter(backend: Backend) -> None:
    assert scattered(0.6, backend=backend).level is TrustLevel.AUDITED


@pytest.mark.first_contact(25, "a time at the floor ties there whatever its samples scatter by")
def test_a_time_at_the_floor_may_scatter() -> None:
    assert scattered(0.6, findings=[Finding(code="empty_floor", text="x")]).level is TrustLevel.AUDITED
