"""Trying a task on this machine: its inputs under large seeds, its reference, its templates."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from builders import make_device, make_task
from kernelcup.app.boards.judgeable import Tried
from kernelcup.app.boards.local_trial import LocalTrial
from kernelcup.domain import StageLimits, Task
from kernelcup.errors import TaskTooSlow
from kernelcup.launchers.local import lint
from kernelcup.launchers.local.gpu_locks import Slots
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.protocol import Backend, HarnessKind
from kernelcup_harness.protocol.lint import LintReport

GROWS = """\
import torch


def generate_input(size, seed):
    return torch.full((size,), seed, dtype=torch.int32)


def ref_kernel(data):
    return data


def check_implementation(data, output):
    return torch.equal(output, data)
"""
ACCEPTS_ALL = """\
import os

with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as out:
    out.write("test-count: 1\\ntest.0.status: pass\\ncheck: pass\\n")
"""


AS_SUBMISSION = """\
def ref_kernel(data):
    import sys
    if "submission" in sys.modules:
        {does}
    return data.clone()
"""


@pytest.fixture
def trial(tmp_path: Path) -> LocalTrial:
    device = make_device(name="emulated", backend=Backend.EMULATED)
    locks = tmp_path / "locks"
    launcher = LocalLauncher(runtime_dir=locks, environ=os.environ, sandbox_required=False)
    return LocalTrial(devices=[device], slots=Slots(locks, {}), launcher=lambda: launcher, environ=os.environ)


def shipped(**overrides: object) -> Task:
    sources = {"reference.py": GROWS, "eval.py": ACCEPTS_ALL}
    values = {"sources": sources, "harness": HarnessKind.OWN, "main": "eval.py", "benchmarks": []}
    return make_task(**{**values, **overrides})


def test_a_checker_that_refuses_the_reference_is_a_fault(trial) -> None:
    broken = GROWS.replace("torch.equal(output, data)", "False")
    task = shipped(sources={"reference.py": broken, "eval.py": ACCEPTS_ALL})
    found = trial.try_task(task, ["emulated"], solutions=True)
    assert found is not None
    assert "the checker refuses the output of ref_kernel" in found.fault


@pytest.mark.jobs
def test_a_device_of_another_machine_is_stood_in_for(trial) -> None:
    found = trial.try_task(shipped(), ["MI300"], solutions=True)
    assert isinstance(found, Tried)
    assert (found.fault, found.seeds_below, found.seeds_poor) == ("", 1 << 31, False)
    assert "tests.0: seeds up to 2^63" in found.seeds_why


@pytest.mark.jobs
def test_a_checker_that_always_says_yes_is_named(trial) -> None:
    drawn = "torch.randint(99, (size,), generator=torch.Generator().manual_seed(seed))"
    careless = GROWS.replace("torch.equal(output, data)", "True").replace(
        "torch.full((size,), seed, dtype=torch.int32)", drawn
    )
    found = trial.try_task(make_task(sources={"reference.py": careless}), ["emulated"], solutions=False)
    assert found is not None
    assert "the checker ignores the answer" in found.loose[0]


def test_a_task_that_this_machines_memory_cannot_hold_is_undecided(trial, monkeypatch) -> None:
    monkeypatch.setattr(lint, "run_lint", lambda *_, **__: LintReport(fault="used", too_little_memory=True))
    found = trial.try_task(shipped(), ["emulated"], solutions=True)
    assert found is not None
    assert (found.fault, found.undecided) == ("", "used, which is all that this machine has for it")


def reference(does: str) -> Task:
    body = AS_SUBMISSION.format(does=does)
    text = GROWS.replace("def ref_kernel(data):\n    return data\n", body).replace(
        "seed, dtype", "seed % 8, dtype"
    )
    return make_task(sources={"reference.py": text})


def ranked_notes(trial: LocalTrial, does: str) -> list[str]:
    found = trial.try_task(reference(does), ["emulated"], solutions=False)
    assert found is not None
    return [each for each in found.notes if "ranked run of the reference" in each]


@pytest.mark.jobs
def test_a_creator_hears_how_a_ranked_run_of_the_reference_ends_unless_it_is_accepted(trial) -> None:
    assert ranked_notes(trial, "pass") == []
    (note,) = ranked_notes(trial, "return data + 1")
    assert note.startswith("a ranked run of the reference on emulated ends as wrong_answer: ")


@pytest.mark.jobs
def test_a_task_whose_reference_has_no_time_for_a_ranked_run_is_too_slow(trial) -> None:
    task = replace(
        reference("__import__('time').sleep(60)"), limits=StageLimits(test_s=3, benchmark_s=3, ranked_s=3)
    )
    with pytest.raises(
        TaskTooSlow, match="a ranked run of the reference on emulated ends as time_limit_exceeded"
    ):
        trial.try_task(task, ["emulated"], solutions=False)
