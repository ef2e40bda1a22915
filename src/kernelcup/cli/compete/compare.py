"""``kernelcup compare``: two submissions measured in turns."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import exit_codes, logs, wiring
from kernelcup.cli.backend import base
from kernelcup.cli.backend.choosing import open_backend
from kernelcup.cli.options import ConfigOption, JsonOption, LocalOption, ServerOption
from kernelcup.cli.show.output import plain
from kernelcup.domain import Device, Task
from kernelcup.errors import DeviceNeeded, InvalidValue, NotFound
from kernelcup_harness.protocol import (
    Backend,
    DuelVerdict,
    HarnessKind,
    JobSpec,
    Mode,
    RunReport,
    SourceTree,
    to_json,
)

if TYPE_CHECKING:
    from kernelcup.app.results.comparisons import Comparison
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database

LARGEST_NUMBER = 2**31 - 1


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="Number of a submission; with --task, a file.")],
    second: Annotated[
        str,
        typer.Argument(
            metavar="B",
            help="Number of another submission to the same leaderboard; with --task, another file.",
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Compare files against this task, on this machine."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            "--gpu",
            "-d",
            help="Device; default: this machine's best for files, the leaderboard's only one for submissions.",
        ),
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Measure which of two submissions is faster.

    Both are measured in turns on one device, and the interval of their ratio shows whether the
    difference is real. Where calls go by the wall clock, as on every device without a GPU, each is measured
    by itself, and the intervals of both times are compared; a server compares their ranked times. An emulated
    device has no times to compare. With --task, and for submission numbers where there is no server, this
    machine compares them now and stores nothing. A server queues the comparison like an unranked run; you may
    compare two of your own, one of your own with any result that ranks once you have a place yourself (yours
    comes first then, and no code of the other is shown), and all of a leaderboard that you manage.

    Exit codes as for `kernelcup run`, for the first one's verdict; 9 if nothing was compared.
    """
    if task is not None:
        compare_files(task, first, second, device, as_json=as_json, config=config)
        return
    numbers = read_number(first), read_number(second)
    with (
        open_backend(server, local, config) as backend,
        wiring.pointing_to(f"kernelcup submissions list{backend.option}", NotFound),
    ):
        backend.ask(
            lambda db: compare_stored(backend, db, *numbers, device, as_json=as_json),
            lambda _: compare_there(backend, *numbers, device, as_json=as_json),
        )


def read_number(text: str) -> int:
    """Return the number of a submission. Raise ``InvalidValue``."""
    digits = text.removeprefix("#").lstrip("0")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= len(str(LARGEST_NUMBER))
    if is_number and int(digits) <= LARGEST_NUMBER:
        return int(digits)
    raise InvalidValue(f"{text}: expected the number of a submission; files need --task TASK")


def compare_files(
    task: str, first: str, second: str, device: str | None, *, as_json: bool, config: Path | None
) -> None:
    """Compare two files on this machine."""
    from kernelcup.app.submissions.submit import read_tree

    settings = wiring.load_config(config)
    chosen = check_device(wiring.pick_device(settings, device), settings.devices)
    found = wiring.find_task(task)
    codes = [read_tree(*wiring.read_submission(Path(name))) for name in (first, second)]
    report = measure(found, codes[0], codes[1], chosen, settings=settings, quiet=as_json)
    names = (Path(first).name, Path(second).name)
    # Full paths where the file names are equal.
    names = (first, second) if names[0] == names[1] else names
    show_report(report, chosen.name, names, (first, second), as_json=as_json)


def check_device(device: Device, offered: Iterable[Device]) -> Device:
    """Return a device that has times to compare. Raise ``InvalidValue``, naming others that are offered."""
    if device.backend is not Backend.EMULATED:
        return device
    others = [each.name for each in offered if each.backend is not Backend.EMULATED]
    more = f"; choose another with --device: {', '.join(others)}" if others else ""
    raise InvalidValue(f"{device.name} is an emulated device, which has no times to compare{more}")


def compare_stored(
    backend: base.Backend, db: Database, first: int, second: int, device: str | None, *, as_json: bool
) -> None:
    """Compare two submissions of this machine's database, without a queue."""
    from kernelcup.app.boards import boards
    from kernelcup.app.results import standings
    from kernelcup.app.submissions.submissions import get_code

    views = [backend.submission(number) for number in (first, second)]
    names = {view.leaderboard for view in views}
    if len(names) > 1:
        raise InvalidValue(
            f"#{first} and #{second} belong to different leaderboards: {', '.join(sorted(names))}"
        )
    board = boards.get_board(db, names.pop())
    if device is None and len(board.devices) > 1:
        text = f"{board.name} has several devices: choose one with --device: {', '.join(board.devices)}"
        raise DeviceNeeded(text, leaderboard=board.name, devices=board.devices)
    wanted = board.devices[0] if device is None else standings.board_device(board, device)
    offered = [each for each in backend.config.devices if each.name in board.devices]
    chosen = check_device(wiring.pick_device(backend.config, wanted), offered)
    codes = [get_code(db, number) for number in (first, second)]
    found = boards.get_task(db, board.name)
    report = measure(found, codes[0], codes[1], chosen, settings=backend.config, quiet=as_json)
    show_report(report, chosen.name, (f"#{first}", f"#{second}"), (first, second), as_json=as_json)


def compare_there(
    backend: base.Backend, first: int, second: int, device: str | None, *, as_json: bool
) -> None:
    """Have a server compare two submissions, and wait for it."""
    from kernelcup.app.results import comparisons
    from kernelcup.reporting.phrases import is_compared

    made = backend.call(comparisons.start, first=first, second=second, device=device)
    if not as_json:
        typer.echo(plain(f"comparison {made.id} of {made.leaderboard} on {made.device}"))
    backend.watch(made.id, quiet=as_json)
    done = backend.call(comparisons.show, comparison_id=made.id)
    if as_json:
        typer.echo(json.dumps(to_json(done)))
    else:
        show_cases(done)
        typer.echo(plain(done.sentence or no_result((done.verdict or done.state).value, f"#{done.first}")))
    code = exit_codes.of_jobs([(done.state, done.verdict)])
    raise typer.Exit(exit_codes.NO_RESULT if code == exit_codes.OK and not is_compared(done.duel) else code)


def show_cases(done: Comparison) -> None:
    """Print the public cases of a server's comparison, with both times and how they differ in turns."""
    from kernelcup.cli.show import terminal
    from kernelcup.cli.show.tables import cell, new_table, print_table
    from kernelcup.reporting.phrases import change_text, duration

    if not done.cases:
        return
    first, second = f"#{done.first}", f"#{done.second}"
    turns = ["in turns"] if any(case.ratio is not None for case in done.cases) else []
    table = new_table("case", first, second, *turns, right=(first, second, *turns))
    for case in done.cases:
        named = {name: value for name, value in case.parameters.items() if name != "seed"}
        times = (case.first_ns, case.second_ns)
        table.add_row(
            cell(", ".join(f"{name} {value}" for name, value in named.items()) or str(case.index)),
            *("" if ns is None else duration(ns) for ns in times),
            *(change_text(case.ratio) if case.ratio is not None else "" for _ in turns),
        )
    print_table(terminal.console(), f"{first} and {second}, case by case", table)


def measure(
    task: Task, first: SourceTree, second: SourceTree, device: Device, *, settings: Config, quiet: bool
) -> RunReport:
    """Measure two submissions in turns on this machine. Raise ``LaunchError``.

    Where that is not possible each is measured by itself, and the intervals of their times are compared.
    """
    from kernelcup.app.results.final_order import by_scores
    from kernelcup.cli.show import render
    from kernelcup.scoring import score
    from kernelcup.tasks.job_spec import build_job_spec, placed

    spec = build_job_spec(
        task,
        job_id="compare",
        submission=first,
        mode=Mode.LEADERBOARD,
        backend=device.backend,
        harness=HarnessKind.STANDARD,  # only ranked runs measure two in turns
    )
    logs.set_up()
    with render.StageLines(quiet=quiet) as lines:
        launcher = wiring.make_local(settings, lines.say)

        def run(job: JobSpec) -> RunReport:
            return launcher.run(job, device, on_event=lines.take, cancelled=threading.Event()).report

        report = run(dataclasses.replace(spec, rival=placed(second, task, spec.harness)))
        if report.duel is None or report.duel.verdict != DuelVerdict.NOT_HELD:
            return report
        other = run(dataclasses.replace(spec, submission=placed(second, task, spec.harness)))
        scores = score(report, task.ranking_by), score(other, task.ranking_by)
        return dataclasses.replace(report, duel=by_scores(*scores, report.duel))


def show_report(
    report: RunReport, device: str, names: tuple[str, str], given: tuple[object, object], *, as_json: bool
) -> None:
    """Print which is faster, and end with the exit code of the first one's verdict.

    Args:
        report: The first submission's, with the duel.
        device: The device that measured them.
        names: Their names in sentences.
        given: Their names in JSON: paths, or numbers of submissions.
    """
    from kernelcup.cli.show import render, terminal
    from kernelcup.reporting.phrases import duel_sentence, is_compared
    from kernelcup.reporting.report import failure, headline
    from kernelcup.reporting.words import wants_a_gpu

    sentence = "" if report.duel is None else duel_sentence(report.duel, *names)
    if as_json:
        body = {
            "first": given[0],
            "second": given[1],
            "device": device,
            "verdict": report.verdict.value,
            "duel": to_json(report.duel),
            "sentence": sentence,
            "report": to_json(report),
        }
        typer.echo(json.dumps(body))
    else:
        out = terminal.console()
        if report.duel is None:
            render.show(out, [headline(report), *failure(report)])
        typer.echo(plain(sentence or no_result(report.verdict.value, names[0])))
        if report.duel is None and wants_a_gpu(report):
            typer.echo("This task needs a GPU: without one there are no times to compare.")
    code = exit_codes.VERDICTS[report.verdict]
    raise typer.Exit(exit_codes.NO_RESULT if code == exit_codes.OK and not is_compared(report.duel) else code)


def no_result(why: str, first: str) -> str:
    """Explain why there is no result: the first submission's verdict, or the job's outcome."""
    if why == "accepted":
        return "There is nothing to compare: the two were not measured in turns."
    if why == "cancelled":
        return "The comparison was cancelled."
    return f'There is nothing to compare: {first} ended with "{why.replace("_", " ")}".'
