"""``kernelcup task check``: faults of a task, found by reading and by running it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.clean_text import listed
from kernelcup.cli import exit_codes, options, wiring
from kernelcup.cli.author import task_solutions
from kernelcup.cli.author.task_argument import Where, task_place
from kernelcup.cli.compete.run import judge
from kernelcup.cli.options import AnyTaskArgument, ConfigOption, JsonOption, LocalOption, ServerOption
from kernelcup.cli.show.output import plain
from kernelcup.domain import Task
from kernelcup.errors import Problem
from kernelcup_harness.protocol import Backend, HarnessKind, Mode, RunReport, SourceTree, Verdict

if TYPE_CHECKING:
    from kernelcup.config.settings import Config
    from kernelcup.tasks.null_report import Outcome

# Returns None, so that the judge must make and carry every input and every expected output.
NULL_SUBMISSION = "def custom_kernel(data):\n    return None\n"
NULL_RUN_S = 600


def check(
    path: AnyTaskArgument,
    run: Annotated[
        bool,
        typer.Option(
            "--run/--no-run",
            help="Whether to run the task: every input, also with large seeds, the reference, null submissions "
            "for the checker, and its templates and solutions.",
        ),
    ] = True,
    harness: Annotated[
        str | None,
        typer.Option(
            "--harness",
            help="standard or own: check the task for this harness, whatever the task names or ships.",
        ),
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Report the problems of a task or problem set.

    Prints one line for each of the first ten, FILE:LINE:COLUMN: KEY: MESSAGE; --json has all. Exit code 0 without
    problems, else 3; warnings do not count.
    """
    kind = options.read_harness(harness)
    with task_place(path, Where(server=server, local=local, config=config)) as place:
        check_at(place, kind, run=run, as_json=as_json, config=config)


def check_at(place: Path, kind: HarnessKind | None, *, run: bool, as_json: bool, config: Path | None) -> None:
    """Check the task or problem set at ``place``, and end with the exit code for the result."""
    from kernelcup.tasks.folder import remarks
    from kernelcup.tasks.loader import load_task
    from kernelcup.tasks.problem_set import check_path

    problems = list(check_path(place, kind))
    tried = ""
    outcome = None
    if run and not problems:
        outcome = try_task(place, config, kind, quiet=as_json)
        problems += outcome.errors if outcome else []
    if run and not problems:
        more, tried = try_run(place, config, kind, quiet=as_json)
        problems += more
    if run and not problems:
        more, judged = try_files(place, config, kind, quiet=as_json)
        problems += more
        tried = "; ".join([tried, *judged])
    if as_json:
        body = {"path": str(place), "problems": list(map(dataclasses.asdict, problems)), "tried": tried}
        typer.echo(json.dumps({**body, **nulls_object(outcome)}))
    else:
        if problems:
            typer.echo(listed(problems))
        show_outcome(outcome)
        for remark in () if problems or is_problem_set(place) else remarks(load_task(place)):
            typer.echo(plain(f"note: {remark}"))
        if not problems:
            typer.echo(f"{place}: no problems" + (f"; {tried}" if tried else ""))
    raise typer.Exit(exit_codes.USER_ERROR if problems else exit_codes.OK)


def try_task(place: Path, config: Path | None, harness: HarnessKind | None, *, quiet: bool) -> Outcome | None:
    """Try the task's inputs and reference with large seeds, and its checker on null submissions.

    Return None if nothing of the task can be run here. Raise ``LaunchError`` or ``TaskTooSlow``.
    """

    from kernelcup.app.boards.local_trial import check_budget, trial_spec
    from kernelcup.cli.show.working import working
    from kernelcup.launchers.local import lint
    from kernelcup.launchers.local.gpu_locks import Slots
    from kernelcup.tasks.loader import load_task
    from kernelcup.tasks.null_report import weigh

    if not can_run(place, harness):
        return None
    settings = wiring.load_config(config)
    device = wiring.pick_device(settings, None)
    task = load_task(place, harness=harness)
    if lacks_gpu(task, settings):
        return None
    spec = trial_spec(task, device.backend, limit_s=NULL_RUN_S)
    about = f"{task.name}: inputs, reference and null submissions on {device.name}"
    with working(about, quiet=quiet) as say:
        slots = Slots(settings.runtime_dir, settings.slot_gpus, say=say)
        report = lint.run_lint(spec, device, slots, environ=os.environ)
    check_budget(task, report.reference_s, device, settings.stage_budget_s)
    return weigh(task, report, place)


def can_run(place: Path, harness: HarnessKind | None) -> bool:
    """Return whether the inputs and the checker of the task at ``place`` can be run here."""
    from importlib.util import find_spec

    from kernelcup.tasks.loader import load_task

    if is_problem_set(place) or find_spec("torch") is None:
        return False
    return load_task(place, harness=harness).harness is HarnessKind.STANDARD


def lacks_gpu(task: Task, settings: Config) -> bool:
    """Return whether a task's own code needs a GPU that this machine does not have."""
    from kernelcup.app.boards.judgeable import needs_nvcc

    return needs_nvcc(task) and wiring.pick_device(settings, None).backend is not Backend.CUDA


def is_problem_set(place: Path) -> bool:
    """Return whether a path names a problem set's file."""
    return place.suffix in (".yaml", ".yml") and place.name != "task.yml"


def nulls_object(outcome: Outcome | None) -> dict[str, object]:
    """Return the part of ``--json`` for a trial: warnings and the null submissions' outcomes."""
    from kernelcup.tasks.null_report import outcome_object

    if outcome is None:
        return {}
    warnings = [dataclasses.asdict(each) for each in outcome.warnings]
    return {"warnings": warnings, **outcome_object(outcome)}


def show_outcome(outcome: Outcome | None) -> None:
    """Print the results of a trial other than problems."""
    if outcome is None:
        return
    for warning in outcome.warnings:
        typer.echo(plain(f"{warning} (warning)"))
    for waived in outcome.waived:
        typer.echo(plain(f"waived: {waived.null} in {', '.join(waived.cases)}: {waived.reason}"))
    for note in outcome.notes:
        typer.echo(plain(f"note: {note}"))
    typer.echo(f"{outcome.tried} null submissions were given to the checker")


def try_run(
    place: Path, config: Path | None, harness: HarnessKind | None, *, quiet: bool
) -> tuple[list[Problem], str]:
    """Have every case's input and expected output made and carried once.

    Return the problems, and a description of what was tried.
    """
    from importlib.util import find_spec

    from kernelcup.tasks.loader import load_task
    from kernelcup.tasks.null_report import problem_at

    if is_problem_set(place):
        return [], ""
    task = load_task(place, harness=harness)
    if task.harness is HarnessKind.OWN:
        return [], "the task's own harness makes its inputs (--harness standard tries ours)"
    if find_spec("torch") is None:
        return [], "nothing was run: PyTorch is not installed here"
    settings = wiring.load_config(config)
    if lacks_gpu(task, settings):
        return [], "there is no GPU here: its files are only compiled"
    report = null_run(task, settings, quiet=quiet)
    if report.verdict is Verdict.WRONG_ANSWER:
        return [], "every input and expected output was made once"
    text = report.message or f"a kernel that returns None ends with {report.verdict.value}"
    if report.verdict is Verdict.ACCEPTED:
        text = "the checker accepts a kernel that returns None"
    elif report.verdict is Verdict.TIME_LIMIT_EXCEEDED:
        text = f"its inputs and expected outputs take longer than {NULL_RUN_S} s to make"
    return [problem_at(place, task, text)], ""


def try_files(
    place: Path, config: Path | None, harness: HarnessKind | None, *, quiet: bool
) -> tuple[list[Problem], list[str]]:
    """Judge the task's templates and solutions by the harness that it chooses.

    Return the problems, and what came of each of the others.
    """
    from importlib.util import find_spec

    from kernelcup.tasks.loader import load_task

    if is_problem_set(place) or find_spec("torch") is None:
        return [], []
    settings = wiring.load_config(config)
    task = load_task(place, harness=harness)
    task = dataclasses.replace(task, harness=harness or task.harness)
    waiting = [*task_solutions.templates_of(task, place), *task_solutions.solutions_of(task, place)]
    done = [task_solutions.judged(task, each, settings, quiet=quiet) for each in waiting]
    if lacks_gpu(task, settings) and (reference := task_solutions.reference_of(task, place)):
        done.insert(0, task_solutions.compiled_only(task, *reference, settings))
    return [problem for problem, _ in done if problem], [text for problem, text in done if not problem]


def null_run(task: Task, settings: Config, *, quiet: bool) -> RunReport:
    """Judge a kernel that returns None on all cases, including benchmarks and hidden cases."""

    from kernelcup.cli.show.working import working

    everything = [*task.tests, *task.benchmarks, *task.hidden_tests, *task.hidden_benchmarks]
    limits = dataclasses.replace(task.limits, test_s=NULL_RUN_S)
    whole = dataclasses.replace(task, tests=everything, hidden_tests=[], limits=limits)
    device = wiring.pick_device(settings, None)
    submission = SourceTree.of(NULL_SUBMISSION)
    about = f"{task.name}: every input and expected output on {device.name}"
    with working(about, quiet=quiet) as say:
        return judge(whole, submission, Mode.TEST, device, settings=settings, quiet=True, say=say)
