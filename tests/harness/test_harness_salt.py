"""Tasks whose seeds have to be small: their random numbers follow from the run's secret, too."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from builders import make_spec
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.protocol import CheckStyle, SampleName, StageName
from kernelcup_harness.submission import salt

KINDS: dict[str, Callable[[int], Any]] = {
    "torch.Generator": lambda seed: torch.rand(4, generator=torch.Generator().manual_seed(seed)).tolist(),
    "torch.manual_seed": lambda seed: (torch.manual_seed(seed), torch.rand(4).tolist())[1],
    "default_rng": lambda seed: np.random.default_rng(seed).random(),
    "default_rng of several": lambda seed: np.random.default_rng([seed, 3]).random(),
    "RandomState": lambda seed: np.random.RandomState(seed).rand(),
    "PCG64": lambda seed: np.random.Generator(np.random.PCG64(seed)).random(),
    "random.Random": lambda seed: random.Random(seed).random(),
    "random.seed": lambda seed: (random.seed(seed), random.random())[1],
}


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    with patch.object(torch, "Generator", torch.Generator):
        salt.install()
        yield


@pytest.mark.parametrize("draw", KINDS.values(), ids=KINDS)
def test_numbers_of_one_seed_follow_from_the_salt(draw: Callable[[int], Any]) -> None:
    def salted(value: int) -> Any:
        with salt.salted(value):
            return draw(7)

    plain = draw(7)
    assert salted(0) == plain == draw(7)
    assert salted(1) == salted(1) != plain
    assert salted(1) != salted(2)


GENERATOR = """\
import torch


def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) + seed


def ref_kernel(data):
    return data.sort().values


def check_implementation(data, output):
    return ""
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what makes inputs of a task that adds its seed to noise."""
    (tmp_path / "adds_its_seed.py").write_text(GENERATOR)
    monkeypatch.syspath_prepend(tmp_path)
    task = TaskCode("adds_its_seed", CheckStyle.DATA_OUTPUT, tmp_path, salted=salt.salted)
    monkeypatch.delitem(sys.modules, "adds_its_seed")

    def made(
        stage: StageName, number: int, *, secret: bytes = b"a", below: int | None = 1 << 20
    ) -> torch.Tensor:
        checks = Checks(task, secret, make_spec(seeds_below=below))
        place = Place(stage, 0, {"size": 64, "seed": 5})
        return checks.make_input(place, SampleName(input=number))  # type: ignore[no-any-return]

    return made


def of_seed_alone(seed: int) -> torch.Tensor:
    return torch.randn(64, generator=torch.Generator().manual_seed(seed)) + seed


@pytest.mark.parametrize(("below", "known"), [(1 << 20, False), (1 << 32, True), (None, True)])
def test_a_ranked_input_of_a_few_seeds_is_in_no_table(make: Any, below: int | None, known: bool) -> None:
    from kernelcup_harness.protocol.seeds import derive_seed

    seed = derive_seed(b"a", "ranked", 0, 3, below=below)
    found = make(StageName.RANKED, 3, below=below)

    assert torch.equal(found, of_seed_alone(seed)) is known
    assert torch.equal(found, make(StageName.RANKED, 3, below=below))


def test_the_cases_own_input_and_those_of_tests_follow_from_the_seed(make: Any) -> None:
    assert torch.equal(make(StageName.RANKED, 0), of_seed_alone(5))
    assert torch.equal(make(StageName.TEST, 2, secret=b"a"), make(StageName.TEST, 2, secret=b"b"))
