"""``kernelcup run``: judge a file here, without a database."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli.options import ConfigOption, HarnessOption, JsonOption, ModeOption, TaskArgument

if TYPE_CHECKING:
    from kernelcup.domain import Device, Task
    from kernelcup_harness.protocol import HarnessKind, Mode, RunReport


def run(
    task: TaskArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The submission.")],
    mode: ModeOption = "test",
    device: Annotated[
        str | None, typer.Option("--device", "-d", help="H100, cpu, emulated...; default: the best here.")
    ] = None,
    harness: HarnessOption = None,
    seed: Annotated[
        str | None, typer.Option("--seed", help="64 hex digits: repeat a run from its revealed seed.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Judge FILE against TASK on this machine and show the report.

    Nothing is stored. Exit codes: 0 accepted, 10 wrong answer, 11 compile error, 12 runtime error,
    13 time limit, 14 memory limit, 15 output limit, 16 rejected, 17 internal error; 3 bad input.
    """
    from kernelcup.cli import exits, options, platform

    settings = platform.load_config(config)
    chosen = platform.pick_device(settings, device)
    found = platform.find_task(task)
    report = judge(
        found,
        read_submission(file),
        options.read_mode(mode),
        chosen,
        options.read_harness(harness),
        check_seed(seed),
        config=config,
        quiet=as_json,
    )
    if as_json:
        typer.echo(json.dumps(as_object(found, chosen, report)))
    else:
        from kernelcup.cli import render

        render.report(render.console(), report, found.ranking_by)
    raise typer.Exit(exits.VERDICTS[report.verdict])


def judge(
    task: Task,
    submission: str,
    mode: Mode,
    device: Device,
    harness: HarnessKind | None = None,
    seed: str | None = None,
    *,
    config: Path | None = None,
    quiet: bool = False,
) -> RunReport:
    """Judge once with a progress line for each stage; ``quiet`` shows none. Raise ``LaunchError``."""
    from kernelcup.cli import platform, render
    from kernelcup.tasks.job_spec import build_job_spec

    spec = build_job_spec(
        task,
        job_id="local",
        submission=submission,
        mode=mode,
        backend=device.backend,
        harness=harness,
        secret_seed=seed,
    )
    launcher = platform.make_launcher(platform.load_config(config))
    with render.StageLines(quiet=quiet) as lines:
        return launcher.run(spec, device, on_event=lines.take, cancelled=threading.Event()).report


def read_submission(file: Path) -> str:
    """Return the text of a submission. Raise ``NotFound`` or ``InvalidSubmission``."""
    from kernelcup.errors import NotFound
    from kernelcup.services.submit import read_code

    try:
        return read_code(file.read_bytes())
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from error


def check_seed(seed: str | None) -> str | None:
    """Return a seed of 64 hex digits. Raise ``InvalidValue``."""
    from kernelcup.errors import InvalidValue

    if seed is not None and (len(seed) != 64 or set(seed.lower()) - set("0123456789abcdef")):
        raise InvalidValue("--seed: expected 64 hex digits, as a report shows them")
    return seed


def as_object(task: Task, device: Device, report: RunReport) -> dict[str, object]:
    """Return what ``--json`` prints: ``verdict``, ``score_s``, ``task``, ``device``, ``report``."""
    from kernelcup.scoring import score_s
    from kernelcup_harness.protocol import to_json

    return {
        "verdict": report.verdict.value,
        "score_s": score_s(report, task.ranking_by),
        "task": {"name": task.name, "content_hash": task.content_hash},
        "device": device.name,
        "report": to_json(report),
    }
