"""The order of calls: which input, which counts, whose turn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from builders import make_spec
from kernelcup_harness.calls import Answer
from kernelcup_harness.protocol import (
    MeasureRules,
    Mode,
    Replay,
    SampleName,
    StageName,
    Verdict,
)
from kernelcup_harness.schedule import CaseRun, PlannedCase, Stage, ends_stage, plan, turns

RULES = MeasureRules(warmups=2, min_samples=6, max_samples=40, relative_error=1e-9, case_budget_s=1e9)
CASE = PlannedCase(index=0, parameters={"size": 1}, hidden=False)
RANKED = Stage(name=StageName.RANKED, cases=[CASE], limit_s=10.0, timed=True)
TESTS = Stage(name=StageName.TEST, cases=[CASE], limit_s=10.0, timed=False)


def case_run(seed: int = 1, *, stage: Stage = RANKED, index: int = 0, **rules: Any) -> CaseRun:
    """Return the calls of a case with chance from ``seed``."""
    changed = {name: getattr(RULES, name) for name in RULES.__dataclass_fields__} | rules
    case = PlannedCase(index=index, parameters={}, hidden=False)
    return CaseRun(case, stage, MeasureRules(**changed), 1e9, random.Random(seed))


def calls(run: CaseRun) -> Iterator[tuple[SampleName, bool]]:
    """Make all calls of a case, none of which settles the mean."""
    number = 0
    while not run.finished:
        sample, counts = run.next_sample()
        number += 1
        run.add(Answer(ns=float(number % 7 + 1), wall_ns=10.0), counts=counts, spent_s=0.0)
        yield sample, counts


def test_every_timed_case_meets_an_old_input_and_a_twin() -> None:
    for seed in range(200):
        made = list(calls(case_run(seed, max_samples=6)))
        seen: set[SampleName] = set()
        repeated = 0
        for sample, counts in made:
            repeated += sample in seen
            assert not (counts and (sample.twin or sample in seen))
            seen.add(sample)
        assert repeated >= 1
        assert any(sample.twin for sample, _counts in made)


def test_a_twin_is_of_an_input_that_was_there() -> None:
    for seed in range(100):
        seen = set()
        for sample, _counts in calls(case_run(seed)):
            if sample.twin:
                assert sample.input in seen
            seen.add(sample.input)


def test_when_an_old_input_comes_cannot_be_foreseen() -> None:
    first_surprise: Counter[int] = Counter()
    for seed in range(300):
        seen: set[int] = set()
        for place, (sample, _counts) in enumerate(calls(case_run(seed))):
            if sample.twin or sample.input in seen:
                first_surprise[place] += 1
                break
            seen.add(sample.input)
    assert len(first_surprise) >= 5
    assert max(first_surprise.values()) < 200


def test_how_many_calls_are_warm_ups_cannot_be_foreseen() -> None:
    found = set()
    for seed in range(60):
        fresh = [counts for sample, counts in calls(case_run(seed, repeats=0, twins=0)) if not sample.twin]
        found.add(fresh.index(True))
    assert {2, 3, 4} <= found


def test_calls_that_are_only_checked_have_no_time() -> None:
    run = case_run(3)
    timed = sum(counts for _sample, counts in calls(run))
    timing = run.timing()
    assert timing is not None
    assert len(timing.samples_ns) == timed == 40
    assert run.count > timed


def test_where_twins_are_no_inputs_old_inputs_come_instead() -> None:
    run = case_run(5)
    run.twins_allowed = False
    assert not any(sample.twin for sample, _counts in calls(run))


def test_a_test_case_is_called_as_often_as_it_is_checked() -> None:
    assert list(calls(case_run(1, stage=TESTS, checks=3))) == [
        (SampleName(input=number), True) for number in range(3)
    ]


def test_a_case_that_failed_is_not_called_again() -> None:
    run = case_run(1)
    run.next_sample()
    run.failed_on = SampleName(input=0)
    assert run.finished


def test_one_secret_gives_one_order() -> None:
    assert list(calls(case_run(9))) == list(calls(case_run(9)))
    assert list(calls(case_run(9))) != list(calls(case_run(10)))


def whose(seed: int, *, shuffled: bool, cases: int = 4) -> list[int]:
    """Return whose turn it is, call by call."""
    chance = random.Random(seed)
    runs = [case_run(seed + index, index=index) for index in range(cases)]
    order = []
    for run in turns(runs, shuffled=shuffled, chance=chance):
        _sample, counts = run.next_sample()
        run.add(Answer(ns=1.0 + len(order) % 5, wall_ns=9.0), counts=counts, spent_s=0.0)
        order.append(run.case.index)
    return order


def test_timed_cases_take_turns_in_an_order_nobody_knows() -> None:
    orders = [whose(seed, shuffled=True) for seed in range(20)]
    assert len({tuple(order[:30]) for order in orders}) == 20
    for order in orders:
        changes = sum(1 for _ in groupby(order))
        assert changes > 20
        assert set(order) == {0, 1, 2, 3}


def test_tests_run_one_after_the_other() -> None:
    order = whose(1, shuffled=False)
    assert order == sorted(order)


def test_a_turn_does_not_end_before_a_case_that_fails() -> None:
    runs = [case_run(index, index=index) for index in range(3)]
    seen = []
    for run in turns(runs, shuffled=False, chance=random.Random(0)):
        run.failed_on = SampleName(input=0)
        seen.append(run.case.index)
    assert seen == [0, 1, 2]


# Plans


SPEC = make_spec(
    mode=Mode.LEADERBOARD,
    tests=[{"size": 1}, {"size": 2}],
    benchmarks=[{"size": 3}],
    hidden_benchmarks=[{"size": 4}],
)


def replaying(stage: StageName, case: int) -> Any:
    """Return the job with a replay of one case."""
    return make_spec(
        mode=Mode.LEADERBOARD,
        tests=SPEC.tests,
        benchmarks=SPEC.benchmarks,
        hidden_benchmarks=SPEC.hidden_benchmarks,
        replay=Replay(stage=stage, case=case, sample=SampleName(input=7)),
    )


def test_a_ranked_job_has_tests_and_ranked_cases_hidden_ones_last() -> None:
    test, ranked = plan(SPEC)
    assert [case.index for case in test.cases] == [0, 1]
    assert [(case.index, case.hidden) for case in ranked.cases] == [(0, False), (1, True)]
    assert (test.timed, ranked.timed) == (False, True)


def test_a_replay_is_one_call_of_one_case() -> None:
    (stage,) = plan(replaying(StageName.RANKED, 1))
    assert [case.index for case in stage.cases] == [1]
    run = CaseRun(stage.cases[0], stage, RULES, 1.0, random.Random(1))
    assert list(calls(run)) == [(SampleName(input=7), True)]


@pytest.mark.parametrize(
    ("stage", "case"), [(StageName.RANKED, 2), (StageName.RANKED, -1), (StageName.BENCHMARK, 0)]
)
def test_a_replay_of_what_the_job_has_not_is_refused(stage: StageName, case: int) -> None:
    with pytest.raises(LookupError, match="has no case"):
        plan(replaying(stage, case))


def test_all_tests_are_tried_but_nothing_is_measured_after_a_fault() -> None:
    assert not ends_stage(TESTS, Verdict.WRONG_ANSWER)
    assert ends_stage(RANKED, Verdict.WRONG_ANSWER)
    assert not ends_stage(RANKED, Verdict.ACCEPTED)
    assert ends_stage(TESTS, Verdict.MEMORY_LIMIT_EXCEEDED)
