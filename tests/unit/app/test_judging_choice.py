"""Whose code judges a leaderboard, and below which bound its seeds are drawn: one rule for every door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from builders import NOW, make_actor, make_calibration, make_device, make_task
from kernelcup.app.boards import boards
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.judgeable import Tried
from kernelcup.app.boards.judging import MadeBoard
from kernelcup.app.boards.local_trial import check_budget
from kernelcup.app.boards.queries import task_versions
from kernelcup.app.machines import calibrations
from kernelcup.domain import OPERATOR, BoardSettings, Role, StageLimits, Task
from kernelcup.errors import BrokenChecker, Conflict, MachineTooSmall, OwnHarnessNeeded, TaskTooSlow
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup_harness.protocol import Backend, HarnessKind, Mode, SourceTree

OWN_MAIN = {"harness": HarnessKind.OWN, "main": "eval.py"}


@dataclass
class FakeTrial:
    """Tries nothing, and answers what it is told to."""

    answer: Tried | None = field(default_factory=Tried)
    asked: list[tuple[list[str], bool]] = field(default_factory=list)

    def try_task(self, _task: Task, devices: Sequence[str], *, solutions: bool) -> Tried | None:
        """Take note of the question."""
        self.asked.append((list(devices), solutions))
        return self.answer


def made(db, task: Task, **overrides: Any) -> MadeBoard:
    values = {"name": "double", "task": task, "devices": ["H100"], "creator": "grace", "now": NOW}
    given = {**values, **overrides}
    parts = {each.name: given.pop(each.name) for each in fields(boards.NewBoard) if each.name in given}
    return boards.make_board(db, boards.NewBoard(settings=BoardSettings(), **parts), **given)


def test_the_standard_harness_is_taken_where_the_tasks_own_solutions_pass(db) -> None:
    trial = FakeTrial()
    found = made(db, make_task(**OWN_MAIN), trial=trial)
    assert found.harness is HarnessKind.STANDARD
    assert trial.asked == [(["H100"], True)]
    (note,) = found.notes
    assert note.startswith(
        "judged by the standard harness (its own solutions pass under it), not by its own eval.py"
    )


def test_a_task_whose_solutions_fail_under_ours_needs_a_yes_to_its_own(db) -> None:
    trial = FakeTrial(
        Tried(fault="its own harness accepts the Python template, but the standard one reports wrong_answer")
    )
    task = make_task(**OWN_MAIN)
    with pytest.raises(
        OwnHarnessNeeded, match="template, but the standard one reports wrong_answer"
    ) as raised:
        made(db, task, trial=trial)
    assert raised.value.code == "own_harness_needed"
    asked = made(db, task, trial=trial, harness=HarnessKind.OWN)
    assert asked.harness is HarnessKind.OWN
    assert asked.notes == ("judged by its own harness (eval.py), as asked; results are marked self-measured",)


def test_a_leaderboard_whose_task_fails_says_how_to_go_on(db) -> None:
    trial = FakeTrial(Tried(fault="the task's ref_kernel failed"))
    _, note = made(db, make_task(), trial=trial).notes
    assert (
        "correct it, then update the leaderboard (`kernelcup board update`): the task's ref_kernel failed"
        in note
    )


def test_a_machine_that_is_too_small_decides_nothing(db) -> None:
    trial = FakeTrial(Tried(undecided="the task's own code used more than 8 bytes of memory"))
    with pytest.raises(MachineTooSmall, match=r"not decided here: .* memory.*--no-run"):
        made(db, make_task(**OWN_MAIN), trial=trial)


def test_a_creator_hears_what_a_ranked_run_takes_and_what_was_not_tried(db) -> None:
    notes = ("a ranked run takes 3 s", "no wrong answers were tried")
    assert made(db, make_task(), trial=FakeTrial(Tried(notes=notes))).notes[1:] == notes


def calibrated(db, device: str, no_counters: str | None, machine: str = "box") -> None:
    found = make_calibration(no_counters=no_counters)
    calibrations.store(db, found, machine=machine, gpu="0", device=device, now=NOW)


def test_a_creator_hears_of_devices_with_locked_counters(db) -> None:
    calibrated(db, "H100", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
    calibrated(db, "H200", "")
    calibrated(db, "B200", None)
    found = made(db, make_task(), devices=["H100", "H200", "B200", "MI300"], trial=FakeTrial())
    (note,) = found.notes[1:]
    assert note == (
        "H100: not all of its machines let the judge read the GPU's hardware counters, so times there are "
        "`replayed`: marked as such, and not protected from kernels that change the clock "
        "(/docs/how-to/run-on-a-gpu-machine.html#hardware-counters)"
    )


def test_opened_counters_and_times_by_the_tasks_own_harness_are_no_news(db) -> None:
    calibrated(db, "H100", "locked")
    assert len(made(db, make_task(**OWN_MAIN), harness=HarnessKind.OWN, name="own").notes) == 1
    calibrated(db, "H100", "")
    assert len(made(db, make_task(), trial=FakeTrial()).notes) == 1


LOOSE = Tried(loose=("the checker ignores the answer",))


def test_a_checker_that_accepts_wrong_answers_has_to_be_confirmed(db) -> None:
    with pytest.raises(BrokenChecker, match="could win with task 'double': the checker ignores") as raised:
        made(db, make_task(), trial=FakeTrial(LOOSE))
    assert raised.value.code == "broken_checker"
    found = made(db, make_task(), trial=FakeTrial(LOOSE), force=True)
    assert any(note.startswith("the checker ignores the answer (") for note in found.notes)


def test_so_has_one_in_a_new_version_of_a_task(db) -> None:
    made(db, make_task())
    change = {"task": make_task(tests=[{"size": 32, "seed": 1}]), "trial": FakeTrial(LOOSE), "now": NOW}
    for given in ({}, {"force": True, "broken_checker": False}):
        with pytest.raises(BrokenChecker):
            update_board(db, OPERATOR, "double", **change, **given)
    done = update_board(db, OPERATOR, "double", **change, force=True)
    assert done.board.task_hash == change["task"].content_hash
    assert any(note.startswith("the checker ignores the answer (") for note in done.notes)


@pytest.mark.parametrize("as_actor", [True, False])
def test_an_operator_and_a_creator_get_the_same_harness(db, as_actor: bool) -> None:
    creator = make_actor(db, "grace", Role.CREATOR) if as_actor else "grace"
    assert made(db, make_task(**OWN_MAIN), creator=creator).harness is HarnessKind.STANDARD
    only_own = make_task(**OWN_MAIN, sources={"eval.py": "", "other.py": ""})
    with pytest.raises(OwnHarnessNeeded):
        made(db, only_own, creator=creator, name="other")


def test_nothing_is_tried_for_a_name_that_is_taken(db) -> None:
    trial = FakeTrial()
    made(db, make_task())
    with pytest.raises(Conflict):
        made(db, make_task(), trial=trial)
    assert trial.asked == []


def test_where_nothing_can_be_tried_that_is_said(db) -> None:
    assert "nothing was tried here" in made(db, make_task()).notes[1]
    assert "nothing was tried here" in made(db, make_task(), name="b2", trial=FakeTrial(None)).notes[1]


def test_a_board_takes_the_bound_that_trying_its_task_proposed(db) -> None:
    task = make_task()
    found = made(db, task, trial=FakeTrial(Tried(seeds_below=1 << 24, seeds_why="tests.0: one value")))
    assert found.seeds_below == boards.get_board(db, "double").seeds_below == 1 << 24
    assert (
        "seeds are drawn below 16777216, larger ones make poorer inputs (tests.0: one value)"
        in found.notes[1]
    )
    # The task version is what the folder is.
    assert found.task_hash == task.content_hash


def test_an_update_tries_the_new_version(db) -> None:
    made(db, make_task(), trial=FakeTrial(Tried(seeds_below=1 << 24)))
    new = make_task(description="Twice.")
    update = {"db": db, "actor": OPERATOR, "name": "double", "now": NOW, "task": new}
    assert update_board(**update).board.seeds_below == 1 << 24
    assert boards.get_board(db, "double").seeds_below == 1 << 24
    newer = {**update, "task": make_task(description="Thrice.")}
    assert update_board(**newer, trial=FakeTrial(Tried(seeds_below=1 << 31))).board.seeds_below == 1 << 31
    assert boards.get_board(db, "double").seeds_below == 1 << 31


@pytest.mark.parametrize(
    ("key", "proposed", "below"),
    [
        (None, None, None),
        (None, 1 << 24, 1 << 24),
        (1 << 30, 1 << 24, 1 << 30),
        ((1 << 63) - 1, 1 << 24, (1 << 63) - 1),
    ],
)
def test_the_bound_of_a_job(key: int | None, proposed: int | None, below: int | None) -> None:
    task = make_task(seeds_below=key)
    about: dict[str, Any] = {
        "job_id": "1",
        "submission": SourceTree.of(""),
        "mode": Mode.TEST,
        "backend": Backend.EMULATED,
    }
    assert build_job_spec(task, **about, seeds_below=proposed).seeds_below == below


def test_a_version_keeps_the_times_of_its_reference_for_the_judge_alone(db) -> None:
    made(db, make_task(), trial=FakeTrial(Tried(reference_s=(0.5,))))
    board = boards.get_board(db, "double")
    with db.read() as session:
        assert task_versions.load(session, board.task_hash).reference_s == [0.5]
    assert boards.get_task(db, "double").reference_s == []


def test_newer_times_of_an_equal_version_replace_older_ones(db) -> None:
    made(db, make_task(), trial=FakeTrial(Tried(reference_s=(0.5,))))
    made(db, make_task(), trial=FakeTrial(), name="second")
    made(db, make_task(), trial=FakeTrial(Tried(reference_s=(0.7,))), name="third")
    with db.read() as session:
        assert task_versions.load(session, make_task().content_hash).reference_s == [0.7]


@pytest.mark.parametrize(
    ("limit_s", "reference_s", "text"),
    [
        (180, [2.0, 2.0], "at most 60 s here. Make the benchmarks smaller"),
        (80, [3.5], "Set it to at least 94"),
    ],
)
def test_a_task_whose_reference_is_too_slow_to_rank_is_refused(
    limit_s: int, reference_s: list[float], text: str
) -> None:
    task = make_task(limits=StageLimits(ranked_s=limit_s))
    with pytest.raises(TaskTooSlow, match=text) as raised:
        check_budget(task, reference_s, make_device(backend=Backend.CUDA), 60.0)
    assert raised.value.code == "task_too_slow"


def test_a_reference_that_fits_or_is_emulated_is_not_refused() -> None:
    check_budget(make_task(), [1.0, 1.0], make_device(backend=Backend.CUDA), 60.0)
    check_budget(make_task(), [9.0], make_device(backend=Backend.EMULATED), 60.0)
