"""The order of calls: which input, which counts, whose turn."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pytest

from builders import make_spec
from kernelcup_harness.clocks.budget import WARM_UP_S, Budget, budgets_s
from kernelcup_harness.clocks.sampling import CasePlan, TimedCase, turns
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.plan import (
    PlannedCase,
    Stage,
    captures,
    ends_stage,
    plan,
)
from kernelcup_harness.protocol import (
    Backend,
    MeasureRules,
    Mode,
    Replay,
    SampleName,
    StageName,
    Timing,
    Verdict,
)

RULES = MeasureRules(warmups=2, min_samples=6, max_samples=40, relative_error=1e-9, case_budget_s=1e9)
CASE = PlannedCase(index=0, parameters={"size": 1}, hidden=False)
RANKED = Stage(name=StageName.RANKED, cases=[CASE], limit_s=10.0, timed=True)
TESTS = Stage(name=StageName.TEST, cases=[CASE], limit_s=10.0, timed=False)


def timed_case(
    case: PlannedCase, stage: Stage, rules: MeasureRules, budget_s: float, chance: random.Random, **given: Any
) -> TimedCase:
    plan = CasePlan(case=case, stage=stage, rules=rules, budget_s=budget_s, chance=chance, **given)
    return TimedCase(plan)


def case_run(
    seed: int = 1, *, stage: Stage = RANKED, index: int = 0, given: dict[str, Any] | None = None, **rules: Any
) -> TimedCase:
    """Return the calls of a case with chance from ``seed``."""
    changed = {name: getattr(RULES, name) for name in RULES.__dataclass_fields__} | rules
    case = PlannedCase(index=index, parameters={}, hidden=False)
    return timed_case(case, stage, MeasureRules(**changed), 1e9, random.Random(seed), **(given or {}))


def calls(run: TimedCase) -> Iterator[tuple[SampleName, bool]]:
    """Make all calls of a case, none of which settles the mean."""
    number = 0
    while not run.finished:
        sample, counts = run.next_sample()
        number += 1
        run.add(Answer(ns=1e6 * (number % 7 + 1), wall_ns=1e7), counts=counts, spent_s=0.0)
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


@pytest.mark.parametrize("cases", [1, 2, 3])
def test_a_run_meets_two_twins_of_different_inputs(cases: int) -> None:
    for seed in range(100):
        stage = replace(
            RANKED, cases=[PlannedCase(index=i, parameters={}, hidden=False) for i in range(cases)]
        )
        runs = [
            case_run(seed + i, stage=stage, index=i, min_samples=1, max_samples=1, warmups=0)
            for i in range(cases)
        ]
        twins = [[sample.input for sample, _ in calls(run) if sample.twin] for run in runs]
        assert sum(len(set(each)) for each in twins) >= 2
        assert all(twins)


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
    assert len(timing.samples_ns) == timed == 40
    assert run.count > timed


def used(run: TimedCase, twins: list[bool]) -> list[SampleName]:
    """Make all calls of a case whose inputs have these twins, and return their inputs."""
    made = []
    while not run.finished:
        sample, counts = run.next_sample()
        made.append(run.use(sample, lambda: twins))
        run.add(Answer(ns=1e6 * (len(made) % 7 + 1), wall_ns=1e7), counts=counts, spent_s=0.0)
    return made


def test_where_twins_are_no_inputs_old_inputs_come_instead() -> None:
    for seed in range(50):
        made = used(case_run(seed), [])
        assert not any(sample.twin for sample in made)
        assert len(set(made)) < len(made)


@pytest.mark.parametrize("twins", [1, 2, 3, 8])
@pytest.mark.parametrize("samples", [1, 6])
def test_each_case_meets_every_twin_and_those_that_count_first(twins: int, samples: int) -> None:
    for seed in range(50):
        run = case_run(seed, min_samples=samples, max_samples=samples, warmups=0)
        met = [sample.part for sample in used(run, [True] * twins) if sample.twin]
        assert met[:twins] == list(range(twins))
        assert len(met) <= max(2, twins) + 2


def test_one_secret_gives_one_order() -> None:
    assert list(calls(case_run(9))) == list(calls(case_run(9)))
    assert list(calls(case_run(9))) != list(calls(case_run(10)))


def whose(seed: int, *, cases: int = 4) -> list[int]:
    chance = random.Random(seed)
    runs = [case_run(seed + index, index=index) for index in range(cases)]
    order = []
    for run in turns(runs, chance):
        _sample, counts = run.next_sample()
        run.add(Answer(ns=1e6 * (1 + len(order) % 5), wall_ns=9e6), counts=counts, spent_s=0.0)
        order.append(run.case.index)
    return order


def test_timed_cases_take_turns_in_an_order_nobody_knows() -> None:
    orders = [whose(seed) for seed in range(20)]
    assert len({tuple(order[:30]) for order in orders}) == 20
    for order in orders:
        changes = sum(1 for _ in groupby(order))
        assert changes > 20
        assert set(order) == {0, 1, 2, 3}


def test_a_turn_does_not_end_before_a_case_that_fails() -> None:
    runs = [case_run(index, index=index) for index in range(3)]
    seen = []
    for run in turns(runs, random.Random(0)):
        run.has_failed = True
        seen.append(run.case.index)
    assert sorted(seen) == [0, 1, 2]


# Time


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, 2.0, id="its share of the stage's ten seconds"),
        pytest.param({"cases": 1}, 10.0, id="all of it if it is the only one"),
        pytest.param({"cases": 0}, 10.0, id="a stage without cases"),
        pytest.param({"case_budget_s": 0.5}, 0.5, id="no more than the task allows a case"),
        pytest.param({"limit_s": 2.5}, 0.3, id="three fifths of the stage's limit for all cases together"),
        pytest.param({"cases": 2, "reference_s": [0.1, 0.1]}, 5.0, id="24 calls of a quick reference fit"),
        pytest.param({"cases": 2, "reference_s": [0.5, 0.1]}, 12.0, id="24 calls of a slow reference"),
        pytest.param({"cases": 2, "reference_s": [9.0]}, 60 * 216 / 221, id="as much as any stage may have"),
    ],
)
def test_a_case_is_sampled_for_its_share(changes: dict[str, Any], expected: float) -> None:
    values = {"cases": 5, "limit_s": 100.0, "case_budget_s": 60.0, "reference_s": []} | changes
    rules = MeasureRules(stage_budget_s=10.0, case_budget_s=values["case_budget_s"])
    found = budgets_s(rules, values["cases"], values["reference_s"], values["limit_s"])
    assert len(found) == values["cases"]
    assert [*found, expected][0] == pytest.approx(expected)


def test_warm_ups_count_up_to_a_limit_and_the_first_one_not_at_all() -> None:
    stage, chance = RANKED, random.Random(1)
    rules = replace(RULES, warmups=5, min_samples=1, max_samples=100, repeats=0, twins=0, relative_error=0)
    made = []
    for budget_s in (WARM_UP_S + 0.01, 1.0):
        run = timed_case(CASE, stage, rules, budget_s, chance)
        while not run.finished:
            _sample, counts = run.next_sample()
            warming_s = 0.04 if run.count else 5.0
            run.add(Answer(ns=1e6, wall_ns=1e7), counts=counts, spent_s=0.1 if counts else warming_s)
        timing = run.timing()
        made.append(len(timing.samples_ns))
    assert made == [2, 10]


@dataclass
class Sampled:
    """What became of a case whose calls all take as long."""

    run: TimedCase
    spent_s: float = 0.0
    twins: int = 0
    again: int = 0

    @property
    def samples(self) -> int:
        timing = self.run.timing()
        return 0 if timing is None else len(timing.samples_ns)


def slow_case(seed: int, budget_s: float, *, stage: Stage = RANKED, call_s: float = 0.3) -> Sampled:
    """Sample a case until it is finished or has no time left; its input and its check take nearly all of it."""
    rules = replace(RULES, warmups=5, min_samples=20)
    run = timed_case(CASE, stage, rules, budget_s, random.Random(seed), settles=True)
    found, seen = Sampled(run), set[SampleName]()
    while not run.finished and not run.lacks_samples:
        sample, counts = run.next_sample()
        run.add(Answer(ns=1e6, wall_ns=1e7), counts=counts, spent_s=call_s)
        found.spent_s += call_s
        found.twins, found.again = found.twins + sample.twin, found.again + (sample in seen)
        seen.add(sample)
    return found


@pytest.mark.parametrize(
    "stage", [RANKED, replace(RANKED, name=StageName.BENCHMARK)], ids=lambda s: s.name.value
)
def test_a_case_whose_calls_take_long_stops_at_its_budget(stage: Stage) -> None:
    for seed in range(20):
        found = slow_case(seed, 0.4, stage=stage)
        assert bool(found.run.lacks_samples) is (stage is RANKED)
        assert found.samples >= 2 or stage is RANKED
        assert found.spent_s <= 0.3 * 9


def test_calls_as_slow_as_the_reference_get_sixteen_samples_and_all_checks() -> None:
    (budget_s,) = budgets_s(MeasureRules(), 1, [0.5])
    for seed in range(20):
        found = slow_case(seed, budget_s, call_s=0.5)
        assert (found.run.lacks_samples, found.samples >= 16) == ("", True)
        # Right answers are not checked less for it.
        assert min(found.twins, found.again) >= 1
        assert found.spent_s <= 1.5 * budget_s


def test_a_case_that_is_refused_for_few_samples_says_how_many_and_what_to_do() -> None:
    run = case_run(warmups=0, min_samples=16, max_samples=100, twins=0, repeats=0)
    run.budget = Budget(2.0)
    while not run.lacks_samples:
        _, counts = run.next_sample()
        run.add(Answer(ns=7e8, wall_ns=7e8), counts=counts, spent_s=0.75)
    assert re.fullmatch(
        r"case 0 has [0-9]+ of the 16 samples .* budget is 2.0 s, .* Make every call faster.*",
        run.lacks_samples,
    )


@pytest.mark.parametrize(
    ("calls", "long_s", "most"),
    [({5}, 2.3, 16), (range(3), 30.0, 100)],
    ids=["one long call", "first calls that compile"],
)
def test_long_calls_do_not_leave_a_case_with_few_samples(
    calls: Container[int], long_s: float, most: int
) -> None:
    run = case_run(warmups=3, min_samples=16, max_samples=100, twins=0, repeats=0)
    run.budget = Budget(2.0)
    while not run.finished:
        _, counts = run.next_sample()
        took_s = long_s if run.count in calls else 0.01
        run.add(Answer(ns=1e6, wall_ns=took_s * 1e9), counts=counts, spent_s=took_s)
    assert run.lacks_samples == ""
    assert 16 <= len(timing_of(run).samples_ns) <= most


def test_a_device_that_is_slowed_down_by_its_work_does_not_leave_few_samples() -> None:
    run = case_run(warmups=0, min_samples=16, max_samples=100, twins=0, repeats=0)
    run.budget = Budget(1.0)
    while not run.lacks_samples:
        assert not run.finished
        _, counts = run.next_sample()
        run.add(Answer(ns=1e6, wall_ns=1e6), counts=counts, spent_s=0.01, slowed_down=run.count > 3)
    assert "were taken while the device was slowed down" in run.lacks_samples


# Plans


SPEC = make_spec(
    mode=Mode.LEADERBOARD,
    tests=[{"size": 1}, {"size": 2}],
    benchmarks=[{"size": 3}],
    hidden_benchmarks=[{"size": 4}],
)


def replaying(stage: StageName, case: int) -> Any:
    return make_spec(
        mode=Mode.LEADERBOARD,
        tests=SPEC.tests,
        benchmarks=SPEC.benchmarks,
        hidden_benchmarks=SPEC.hidden_benchmarks,
        replay=Replay(stage=stage, case=case, sample=SampleName(input=7)),
    )


def test_a_ranked_job_has_tests_and_ranked_cases_and_hidden_ones_after_all_of_them() -> None:
    test, ranked, hidden = plan(SPEC)
    assert [case.index for case in test.cases] == [0, 1]
    assert [(case.index, case.hidden) for case in ranked.cases] == [(0, False)]
    assert [(case.index, case.hidden) for case in hidden.cases] == [(1, True)]
    assert (test.timed, ranked.timed, hidden.timed) == (False, True, True)
    assert (ranked.total, hidden.total) == (2, 2)
    assert (test.is_last, ranked.is_last, hidden.is_last) == (True, False, True)


def test_a_replay_is_one_call_of_one_case() -> None:
    (stage,) = plan(replaying(StageName.RANKED, 1))
    assert [case.index for case in stage.cases] == [1]
    run = timed_case(stage.cases[0], stage, RULES, 1.0, random.Random(1))
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


@pytest.mark.parametrize(
    ("mode", "backend", "expected"),
    [
        (Mode.TEST, Backend.CUDA, False),
        (Mode.PROFILE, Backend.CUDA, False),
        (Mode.BENCHMARK, Backend.CUDA, True),
        (Mode.BENCHMARK, Backend.CPU, False),
        (Mode.LEADERBOARD, Backend.CUDA, True),
        (Mode.LEADERBOARD, Backend.CPU, False),
        (Mode.LEADERBOARD, Backend.EMULATED, False),
    ],
)
def test_timed_calls_are_captured_on_a_gpu(mode: Mode, backend: Backend, expected: bool) -> None:
    assert captures(make_spec(mode=mode, backend=backend)) is expected


def test_a_sample_that_is_judged_again_is_not_captured() -> None:
    assert not captures(replace(replaying(StageName.RANKED, 1), backend=Backend.CUDA))


# Samples


def sampled(*calls: dict[str, Any], **given: Any) -> TimedCase:
    """Return a case with these samples of 10 us, unless they say something else."""
    run = case_run(repeats=0, twins=0, warmups=0, max_samples=200, given=given)
    for changes in calls:
        run.next_sample()
        values = {"ns": 1e4, "own_ns": 9e3, "wall_ns": 1e4} | changes
        more = {name: values.pop(name) for name in ("clock_mhz", "slowed_down") if name in values}
        run.add(Answer(**values), counts=True, spent_s=0.0, **more)
    return run


def timing_of(run: TimedCase) -> Timing:
    found = run.timing()
    assert found is not None
    return found


def test_a_case_without_samples_has_no_times() -> None:
    assert case_run().timing() is None


def test_samples_have_the_contestants_own_times_beside_them() -> None:
    run = sampled({}, {"ns": 2e4, "own_ns": 1e4}, overhead_ns=700.0, noise_share=0.01)
    found = timing_of(run)
    assert (found.samples_ns, found.own_ns) == ([1e4, 2e4], [9e3, 1e4])
    assert (found.overhead_ns, found.offset_ns, found.noise_share) == (700.0, 0.0, 0.01)


def test_replayed_samples_have_no_times_of_the_contestant() -> None:
    assert timing_of(sampled({"own_ns": math.nan}, {"own_ns": math.nan})).own_ns == []


def test_samples_of_a_device_that_is_slowed_down_do_not_count() -> None:
    found = timing_of(sampled({}, {"ns": 5e4, "slowed_down": True}, {}))
    assert (found.samples_ns, found.discarded_ns) == ([1e4, 1e4], [5e4])


def test_a_device_that_is_always_slowed_down_ends_a_case_all_the_same() -> None:
    run = sampled({}, *[{"ns": 5e4, "slowed_down": True}] * 25)
    assert run.finished
    assert len(timing_of(run).discarded_ns) == 25


def test_samples_at_a_low_clock_do_not_count_and_neither_do_their_own_times() -> None:
    slow = {"ns": 3e4, "own_ns": 2e4, "clock_mhz": 900.0}
    found = timing_of(sampled(slow, *[{"clock_mhz": 1800.0}] * 10))
    assert (found.samples_ns, found.own_ns) == ([1e4] * 10, [9e3] * 10)
    assert (found.discarded_ns, found.clocks_mhz) == ([3e4], [1800.0] * 10)


def test_clocks_that_are_known_of_some_samples_only_discard_none() -> None:
    found = timing_of(sampled({"clock_mhz": 900.0}, {"clock_mhz": 1800.0}, {}))
    assert (len(found.samples_ns), found.clocks_mhz, found.discarded_ns) == (3, [], [])
