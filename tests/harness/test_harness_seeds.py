"""Bounds of seeds: what is drawn, what is tried, and what large seeds do to inputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from builders import make_spec
from kernelcup_harness.clocks.sampling import CasePlan, TimedCase
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.plan import PlannedCase, Stage
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.lint import seed_trial
from kernelcup_harness.lint.seed_trial import Trial
from kernelcup_harness.protocol import (
    FEWEST_SEEDS,
    CheckStyle,
    MeasureRules,
    ProtocolError,
    SampleName,
    StageName,
    check_spec,
)
from kernelcup_harness.protocol.seeds import derive_seed

SEEDS = """\
def generate_input(size, seed):
    return [seed]


def ref_kernel(data):
    return data


def check_implementation(data, output):
    return data == output
"""
SECRET = bytes(range(32))
OWN = 4242


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def faulty(make: Callable[[int], Any]) -> Callable[[int], Any]:
    """Raise what a task's code raises as the judge does."""

    def made(seed: int) -> Any:
        try:
            return make(seed)
        except Exception as error:
            raise TaskFault(f"generate_input failed: {error}") from error

    return made


def tried(make: Callable[[int], Any], given: int | None = OWN, below: int | None = None) -> Trial:
    trial = Trial(below)
    trial.case("tests.0", given, faulty(make))
    return trial


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: torch.randn(1000, generator=generator(seed)),
        lambda seed: (torch.randint(0, 9, (50,), generator=generator(seed)), 7, "word"),
        lambda seed: torch.rand(40, generator=generator(seed)).to(torch.float8_e4m3fn),
        lambda _seed: torch.arange(10),
        lambda _seed: torch.zeros(3),
        lambda _seed: torch.empty(0),
    ],
)
def test_a_task_that_bears_large_seeds_gets_no_bound(make) -> None:
    trial = tried(make)
    assert (trial.proposal, trial.poor, trial.why) == (None, False, "")


@pytest.mark.parametrize(
    ("make", "below", "why"),
    [
        (lambda seed: torch.from_numpy(numpy.random.RandomState(seed).randn(9)), 1 << 32, "2**32"),
        (lambda seed: torch.tensor([seed, 1], dtype=torch.int32), 1 << 31, "overflow"),
        (lambda seed: torch.randn(99, generator=generator(seed)).half() * (seed / 1e3), 1 << 24, "finite"),
        (
            lambda seed: torch.randn(9, generator=generator(min(seed, 2**32 - 1))),
            1 << 32,
            "different seeds make the same input",
        ),
        (
            lambda seed: torch.randn(999, generator=generator(seed), dtype=torch.float64) + seed // 2**20,
            1 << 24,
            "of their size",
        ),
    ],
)
def test_the_largest_bound_that_does_not_is_proposed(make, below: int, why: str) -> None:
    trial = tried(make)
    assert (trial.proposal, trial.poor) == (below, False)
    assert trial.why.startswith("tests.0: seeds up to 2^63")
    assert why in trial.why


def test_a_seed_that_is_added_to_float32_noise_leaves_the_smallest_bound() -> None:
    trial = tried(lambda seed: torch.randn(9000, generator=generator(seed)) + seed)
    assert (trial.proposal, trial.poor) == (FEWEST_SEEDS, True)
    assert "input: 1 different values instead of" in trial.why


def test_a_bound_that_the_task_has_is_tried_and_only_made_smaller() -> None:
    numbers = tried(lambda seed: torch.tensor([seed, 1], dtype=torch.int32), below=1 << 31)
    assert numbers.proposal is None
    assert tried(lambda seed: torch.tensor([seed], dtype=torch.int32), below=1 << 40).proposal == 1 << 31


def test_the_cases_share_one_bound() -> None:
    trial = Trial(None)
    trial.case("tests.0", 1, faulty(lambda seed: torch.tensor([seed, 1], dtype=torch.int32)))
    trial.case("tests.1", None, faulty(lambda seed: torch.rand(9, generator=generator(seed))))
    assert trial.proposal == 1 << 31


def test_an_input_that_cannot_be_made_for_its_own_seed_is_a_fault() -> None:
    with pytest.raises(TaskFault):
        tried(lambda seed: torch.zeros(-1))


def test_large_tensors_are_looked_at_all_over() -> None:
    rows = torch.zeros(512, 1024)
    rows[:, 512:] = torch.arange(512 * 512).reshape(512, 512)
    assert seed_trial.richness(rows).values > 20_000


def checks_of(folder: Path, monkeypatch: pytest.MonkeyPatch, below: int | None) -> Checks:
    (folder / "seeded.py").write_text(SEEDS)
    monkeypatch.syspath_prepend(folder)
    task = TaskCode("seeded", CheckStyle.DATA_OUTPUT, folder)
    return Checks(task, SECRET, make_spec(seeds_below=below))


def seeds_of(checks: Checks, stage: StageName, count: int = 50) -> list[int]:
    place = Place(stage, 0, {"size": 1, "seed": OWN})
    return [checks.make_input(place, SampleName(input=number))[0] for number in range(count)]


@pytest.mark.parametrize("stage", [StageName.RANKED, StageName.TEST])
def test_seeds_that_are_drawn_stay_below_the_bound(tmp_path, monkeypatch, stage) -> None:
    bound = FEWEST_SEEDS + 7
    found = seeds_of(checks_of(tmp_path, monkeypatch, bound), stage)
    assert max(found) < bound
    assert len(set(found)) == len(found)
    assert max(found[1:]) > bound // 2


def test_the_first_ranked_input_has_the_cases_own_seed(tmp_path, monkeypatch) -> None:
    found = seeds_of(checks_of(tmp_path, monkeypatch, None), StageName.RANKED)
    assert found[0] == OWN
    assert min(found[1:]) > 1 << 40


def test_a_ranked_case_without_a_seed_draws_all_of_them(tmp_path, monkeypatch) -> None:
    place = Place(StageName.RANKED, 0, {"size": 1})
    (seed,) = checks_of(tmp_path, monkeypatch, None).make_input(place, SampleName(input=0))
    assert seed == derive_seed(SECRET, "ranked", 0, 0)


def test_the_input_with_the_public_seed_is_never_timed() -> None:
    case = PlannedCase(index=0, parameters={"seed": OWN}, hidden=False)
    stage = Stage(name=StageName.RANKED, cases=[case], limit_s=10, timed=True)
    rules = MeasureRules(warmups=0, relative_error=0, repeats=0, twins=0)
    chance = random.Random(0)
    run = TimedCase(CasePlan(case=case, stage=stage, rules=rules, budget_s=1.0, chance=chance))
    assert run.next_sample() == (SampleName(input=0), False)
    assert run.next_sample()[1]


def test_a_job_with_too_small_a_bound_is_refused() -> None:
    check_spec(make_spec(seeds_below=FEWEST_SEEDS))
    with pytest.raises(ProtocolError, match="seeds_below: at least 1048576"):
        check_spec(make_spec(seeds_below=FEWEST_SEEDS - 1))
