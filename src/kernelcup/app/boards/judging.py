"""Choose the harness that judges a leaderboard, and the bound below which its seeds are drawn.

The standard harness is chosen wherever the task's own solutions pass under it; the task's own harness only
on request. Every entry point that creates a leaderboard includes the notes in its reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from kernelcup.app.boards.judgeable import TaskTrial, Tried
from kernelcup.app.machines.queries import calibrations
from kernelcup.domain import Language, Leaderboard, Task
from kernelcup.engine import Session
from kernelcup.errors import BrokenChecker, InvalidValue, MachineTooSmall, OwnHarnessNeeded
from kernelcup.tasks.manifest.c_interface import missing, reference_of
from kernelcup.tasks.manifest.reference import fits_standard_harness
from kernelcup_harness.protocol import HarnessKind

ON_COUNTERS = "/docs/how-to/run-on-a-gpu-machine.html#hardware-counters"
UNTRIED = "nothing was tried here: `kernelcup task check --harness standard TASK` tries it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judging:
    """How a leaderboard's submissions are judged, and why."""

    harness: HarnessKind
    seeds_below: int | None = None
    notes: tuple[str, ...] = ()
    reference_s: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeBoard(Leaderboard):
    """A new leaderboard."""

    notes: tuple[str, ...]
    """How it is judged, and what its creator should know."""

    @classmethod
    def of(cls, board: Leaderboard, notes: tuple[str, ...]) -> MadeBoard:
        """Return a leaderboard with notes."""
        return cls(**{each.name: getattr(board, each.name) for each in fields(board)}, notes=notes)


def choose_judging(
    task: Task,
    wanted: HarnessKind | None,
    devices: Sequence[str],
    trial: TaskTrial | None,
    *,
    force: bool = False,
) -> Judging:
    """Choose how a new leaderboard of the task is judged. ``force`` confirms a checker that accepts wrong answers.

    Raises:
        InvalidValue: The harness that was asked for cannot judge the task, or none can.
        OwnHarnessNeeded: Only the task's own harness can, and ``wanted`` does not ask for it.
        BrokenChecker: The task's checker accepts wrong answers, and that is not confirmed.
        TaskTooSlow: 16 samples of each benchmark do not fit into a ranked stage.
        MachineTooSmall: The task cannot be tried in this machine's memory.
    """
    kind = wanted or propose_harness(task)
    if kind is HarnessKind.OWN:
        check_harness(task, kind)
        if wanted is None:
            raise own_needed(task, why_not_standard(task))
        return Judging(harness=kind, notes=(own_note(task),))
    check_harness(task, kind)
    asked = wanted is not None
    judges_own = task.main is not None and not asked
    tried = None if trial is None else trial.try_task(task, devices, solutions=judges_own)
    if tried and tried.undecided:
        raise MachineTooSmall(
            f"Task {task.name!r} is not decided here: {tried.undecided}. Try it on a larger machine, or publish it "
            "untested (`kernelcup board create --no-run`, `run: false` by the API)."
        )
    if tried and tried.fault and judges_own:
        raise own_needed(task, tried.fault)
    check_answers(task, tried, force=force)
    return Judging(
        harness=kind,
        seeds_below=None if tried is None or task.seeds_below is not None else tried.seeds_below,
        notes=(standard_note(task, tried, asked=asked), *trial_notes(task, tried)),
        reference_s=tried.reference_s if tried else (),
    )


def check_answers(task: Task, tried: Tried | None, *, force: bool) -> None:
    """Raise ``BrokenChecker`` if a task's checker accepts wrong answers, unless that is confirmed."""
    if tried is not None and tried.loose and not force:
        raise BrokenChecker(
            f"Wrong answers could win with task {task.name!r}: {'; '.join(tried.loose)}. Fix its checker, or confirm "
            "that you want it as it is."
        )


def counters_notes(session: Session, devices: Sequence[str], harness: HarnessKind) -> tuple[str, ...]:
    """Return a note about each device on which the standard harness lacks a witness, by the newest calibrations."""
    locked = {each.device for each in calibrations.newest(session) if each.found.no_counters}
    locked = locked if harness is HarnessKind.STANDARD else set()
    return tuple(
        f"{name}: not all of its machines let the judge read the GPU's hardware counters, so times there are "
        f"`replayed`: marked as such, and not protected from kernels that change the clock ({ON_COUNTERS})"
        for name in devices
        if name in locked
    )


def try_version(task: Task, board: Leaderboard, trial: TaskTrial) -> Tried | None:
    """Try a new version of a leaderboard's task; return None if that cannot be done. Raise ``TaskTooSlow``."""
    if board.harness is HarnessKind.OWN:
        return Tried()
    tried = trial.try_task(task, board.devices, solutions=False)
    bounded = task.seeds_below is not None
    return replace(tried, seeds_below=None) if tried is not None and bounded else tried


def propose_harness(task: Task) -> HarnessKind:
    """Return the standard harness if the task's files fit it, else the one that the task asks for."""
    return HarnessKind.STANDARD if fits_standard(task) else task.harness


def check_harness(task: Task, kind: HarnessKind) -> HarnessKind:
    """Return ``kind``. Raise ``InvalidValue`` if that harness cannot judge the task."""
    if kind is HarnessKind.OWN and task.main is None:
        raise InvalidValue(f"Task {task.name!r} ships no harness of its own; use 'standard'.")
    if kind is HarnessKind.STANDARD and not fits_standard(task):
        instead = "" if task.main is None else " Use 'own'."
        raise InvalidValue(
            f"Task {task.name!r} cannot be judged by the standard harness: {why_not_standard(task)}.{instead}"
        )
    return kind


def fits_standard(task: Task) -> bool:
    """Return whether a task's files define everything that the standard harness calls."""
    if task.lang is Language.CUDA:
        name = reference_of(task.sources)
        return name is not None and not missing(task.sources[name])
    return fits_standard_harness(task.sources)


def why_not_standard(task: Task) -> str:
    """Return why the standard harness is not proposed for a task."""
    if task.lang is Language.CUDA:
        return "that takes a reference.cu, .cuh or .cpp with generate_input and ref_kernel by kernelcup.h"
    return "that takes a reference.py with generate_input and check_implementation(data, output)"


def own_needed(task: Task, why: str) -> OwnHarnessNeeded:
    """Return the error for a task whose own harness must be asked for."""
    return OwnHarnessNeeded(
        f"Task {task.name!r} can be judged by its own harness only: {why}. Results would be marked "
        "self-measured; ask for the harness 'own' if you want that."
    )


def own_note(task: Task) -> str:
    """Return the note about a task's own harness."""
    return f"judged by its own harness ({task.main}), as asked; results are marked self-measured"


def standard_note(task: Task, tried: Tried | None, *, asked: bool) -> str:
    """Return the note that the standard harness judges, and not the one that the task ships."""
    if task.main is None:
        return "judged by the standard harness"
    why = "as asked" if asked else "its own solutions pass under it" if tried else "its files fit"
    return f"judged by the standard harness ({why}), not by its own {task.main}; the harness 'own' keeps that one"


def trial_notes(task: Task, tried: Tried | None) -> tuple[str, ...]:
    """Return notes about the result of trying the task."""
    from kernelcup.tasks.null_report import OPEN_SEEDS

    if tried is None:
        return (UNTRIED,)
    failed = "trying the task failed; correct it, then update the leaderboard (`kernelcup board update`)"
    notes = [f"{failed}: {tried.fault}"] if tried.fault else []
    notes += [f"{text} (`kernelcup task check` names the lines)" for text in tried.loose]
    notes += tried.notes
    if tried.seeds_below is not None and task.seeds_below is None:
        notes.append(
            f"seeds are drawn below {tried.seeds_below}, larger ones make poorer inputs ({tried.seeds_why}); "
            "`seeds_below` in task.yml sets another bound"
        )
    if tried.seeds_poor:
        notes.append(
            f"even seeds below {tried.seeds_below or task.seeds_below} make poorer inputs than the task's own; "
            "change generate_input so that values do not depend on the size of the seed"
        )
    notes += [f"the {OPEN_SEEDS}"] if tried.seeds_open else []
    return tuple(notes)
