"""Try a task before a leaderboard is created for it: its inputs, its reference, its templates."""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kernelcup.app.boards.judgeable import Tried
from kernelcup.domain import Device, Language, Task
from kernelcup.errors import LaunchCancelled, LaunchError, TaskTooSlow
from kernelcup.launchers.local.gpu_locks import Slots
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.null_report import run_text, weigh
from kernelcup_harness.protocol import (
    FEWEST_SAMPLES,
    WALL_SHARE,
    Backend,
    HarnessKind,
    JobSpec,
    Mode,
    RunReport,
    SourceTree,
    Verdict,
)

if TYPE_CHECKING:
    from kernelcup.launchers.threads import RunsInThreads
    from kernelcup_harness.protocol.lint import LintReport

LIMIT_S = 120
"""The limit for all inputs and answers of the reference, and for all tests of one template."""
NULLS_S = 30
"""The limit for null submissions: what they show is a note, so it must not keep a creator waiting."""
SLOT_S = 20.0
"""How long to wait for a busy device."""
STAND_IN = Device(name="trial", backend=Backend.EMULATED)
"""Used if this machine has none of the devices, or none is free: inputs can be made without a GPU too."""

logger = logging.getLogger(__name__)


class LocalTrial:
    """Tries tasks on this machine.

    Args:
        devices: The devices of this machine.
        slots: Their slots.
        launcher: Returns the launcher for them, which is loaded when the first task comes.
        environ: The environment; only allowed variables are passed on.
        stage_budget_s: Longest budget of a ranked stage.
        say: Is told each step before it begins.
    """

    def __init__(
        self,
        *,
        devices: Sequence[Device],
        slots: Slots,
        launcher: Callable[[], RunsInThreads],
        environ: Mapping[str, str],
        stage_budget_s: float = 60.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._devices = {device.name: device for device in devices}
        self._slots = slots
        self._launcher = launcher
        self._environ = environ
        self._stage_budget_s = stage_budget_s
        self._say = say

    def try_task(self, task: Task, devices: Sequence[str], *, solutions: bool) -> Tried | None:
        """Try a task for these devices; return None if it cannot be tried now."""
        here = [self._devices[name] for name in devices if name in self._devices]
        for device in [*here[:1], STAND_IN]:
            try:
                tried = self._try(task, device, solutions=solutions)
                return tried if tried.fault or tried.undecided else self._ranked(task, here, tried)
            except LaunchCancelled:
                logger.warning(
                    "%s: not tried on %s, which other jobs kept busy for %g s; try it yourself: kernelcup task check",
                    task.name,
                    device.name,
                    SLOT_S,
                )
            except LaunchError as error:
                logger.warning("%s: not tried on %s: %s", task.name, device.name, error)
        return None

    def _try(self, task: Task, device: Device, *, solutions: bool) -> Tried:
        self._say(f"{task.name}: inputs and reference on {device.name}")
        spec = trial_spec(task, device.backend)
        found = self._lint(spec, device, nulls=False)
        if found.too_little_memory:
            return Tried(undecided=f"{found.fault}, which is all that this machine has for it")
        # A failure on the stand-in may not happen on the real device.
        fault = "" if device is STAND_IN else found.fault
        if solutions and not fault and device is not STAND_IN:
            fault = self._templates_fault(task, device)
        # Emulated times say nothing of a device.
        reference_s = () if device.backend is Backend.EMULATED else tuple(found.reference_s)
        check_budget(task, reference_s, device, self._stage_budget_s)
        loose, untried = ((), "") if found.fault else self._accepted_nulls(task, device)
        return Tried(
            fault=fault,
            loose=loose,
            notes=tuple(each for each in (untried, run_text(task, found) if reference_s else "") if each),
            reference_s=reference_s,
            seeds_below=found.seeds_below,
            seeds_poor=found.seeds_poor,
            seeds_open=found.seeds_open,
            seeds_why=found.seeds_why,
        )

    def _ranked(self, task: Task, devices: Sequence[Device], tried: Tried) -> Tried:
        """Judge the reference as if it were submitted for a ranking, on each device. Raise ``TaskTooSlow``."""
        if task.lang is not Language.PYTHON or task.multi_gpu:
            return tried
        notes = list(tried.notes)
        for device in devices:
            self._say(f"{task.name}: ranked run of the reference on {device.name}")
            try:
                report = self._report(reference_spec(task, device.backend, tried.seeds_below), device)
            except LaunchError as error:
                notes.append(f"no ranked run of the reference was tried on {device.name}: {error}")
                continue
            ends = f"a ranked run of the reference on {device.name} ends as {report.verdict.value}: {report.message}"
            if report.verdict is Verdict.TIME_LIMIT_EXCEEDED:
                raise TaskTooSlow(f"Task {task.name!r} is too slow to be ranked: {ends}")
            if report.verdict is not Verdict.ACCEPTED:
                notes.append(ends)
        return dataclasses.replace(tried, notes=tuple(notes))

    def _accepted_nulls(self, task: Task, device: Device) -> tuple[tuple[str, ...], str]:
        """Return the null submissions that the checker accepts, and why they were not tried to the end."""
        if task.multi_gpu:
            return (), "a task on several GPUs is tried by jobs only"
        self._say(f"{task.name}: null submissions on {device.name}")
        spec = trial_spec(task, device.backend, limit_s=NULLS_S)
        found = self._lint(spec, device)
        if found.fault:
            return (), f"null submissions were not tried to the end: {found.fault}"
        return tuple(each.text for each in weigh(task, found, Path(task.name)).errors), ""

    def _lint(self, spec: JobSpec, device: Device, *, nulls: bool = True) -> LintReport:
        from kernelcup.launchers.local import lint

        with patience(SLOT_S) as (cancelled, _):
            return lint.run_lint(
                spec, device, self._slots, environ=self._environ, nulls=nulls, cancelled=cancelled
            )

    def _templates_fault(self, task: Task, device: Device) -> str:
        """Return a fault if the task's own harness accepts a template that the standard one does not."""
        for name, text in task.templates.items():
            self._say(f"{task.name}: template {name} on {device.name}")
            ours = self._verdict(task, device, text, HarnessKind.STANDARD)
            if ours is Verdict.ACCEPTED:
                continue
            if self._verdict(task, device, text, HarnessKind.OWN) is Verdict.ACCEPTED:
                return (
                    f"its own harness accepts the {name} template, but the standard one reports {ours.value}"
                )
        return ""

    def _verdict(self, task: Task, device: Device, text: str, harness: HarnessKind) -> Verdict:
        spec = trial_spec(task, device.backend, submission=text, harness=harness, mode=Mode.TEST)
        return self._report(spec, device).verdict

    def _report(self, spec: JobSpec, device: Device) -> RunReport:
        """Run a job, which bounds itself once it has a slot. Raise ``LaunchError``."""
        with patience(SLOT_S) as (cancelled, stop_waiting):
            done = self._launcher().run(spec, device, on_event=lambda _: stop_waiting(), cancelled=cancelled)
        return done.report


def check_budget(task: Task, reference_s: Sequence[float], device: Device, most_s: float) -> None:
    """Raise ``TaskTooSlow`` if 16 samples of each benchmark do not fit into a ranked stage of ``most_s``."""
    needed_s, limit_s = FEWEST_SAMPLES * sum(reference_s), WALL_SHARE * task.limits.ranked_s
    if needed_s <= min(most_s, limit_s) or device.backend is Backend.EMULATED:
        return
    if needed_s <= most_s:
        has = f"ranked_timeout: {task.limits.ranked_s} leaves {limit_s:.0f} s for them"
        instead = f"Set it to at least {math.ceil(needed_s / WALL_SHARE)}"
    else:
        has = f"a ranked stage has at most {most_s:g} s here"
        instead = "Make the benchmarks smaller, or generate_input and the check quicker"
    raise TaskTooSlow(
        f"Task {task.name!r} is too slow to be ranked on {device.name!r}: {FEWEST_SAMPLES} calls of its reference "
        f"for each benchmark, with input and check, take {needed_s:.0f} s, and {has}. {instead}."
    )


def trial_spec(
    task: Task,
    backend: Backend,
    *,
    submission: str = "",
    harness: HarnessKind = HarnessKind.STANDARD,
    mode: Mode = Mode.LEADERBOARD,
    limit_s: int = LIMIT_S,
) -> JobSpec:
    """Return the job that tries a task, with all its cases, or one of its templates."""
    roomy = dataclasses.replace(task, limits=dataclasses.replace(task.limits, test_s=limit_s))
    return build_job_spec(
        roomy,
        job_id="trial",
        submission=SourceTree.of(submission, task.submission_name_of(submission)),
        mode=mode,
        backend=backend,
        harness=harness,
    )


def reference_spec(task: Task, backend: Backend, seeds_below: int | None) -> JobSpec:
    """Return a ranked run of the reference itself, in a process that may see it."""
    text = "from reference import ref_kernel as custom_kernel\n"
    submission = SourceTree.of(text, task.submission_name_of(text))
    spec = build_job_spec(
        task,
        job_id="trial",
        submission=submission,
        mode=Mode.LEADERBOARD,
        backend=backend,
        harness=HarnessKind.STANDARD,
        seeds_below=seeds_below,
    )
    return dataclasses.replace(spec, private_files=[], shown_files={})


@contextmanager
def patience(seconds: float) -> Iterator[tuple[threading.Event, Callable[[], None]]]:
    """Yield an event that is set after the given number of seconds, and what stops that."""
    cancelled = threading.Event()
    timer = threading.Timer(seconds, cancelled.set)
    timer.daemon = True
    timer.start()
    try:
        yield cancelled, timer.cancel
    finally:
        timer.cancel()
