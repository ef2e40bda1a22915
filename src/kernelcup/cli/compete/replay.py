"""``kernelcup replay``: repeat one sample of a finished run."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import exit_codes, wiring
from kernelcup.cli.backend.choosing import open_backend
from kernelcup.cli.options import ConfigOption, JsonOption, LocalOption, ServerOption
from kernelcup.cli.show.output import plain
from kernelcup.errors import InvalidValue, NotFound
from kernelcup_harness.protocol import JobSpec, RunReport, StageName, from_json, to_json

if TYPE_CHECKING:
    from kernelcup.app.results.replay import FoundRun
    from kernelcup.cli.backend.base import Backend
    from kernelcup.client.api import Api

STAGES = ("test", "benchmark", "ranked")


def replay(
    run_id: Annotated[
        int,
        typer.Argument(
            metavar="RUN", min=1, max=2**63 - 1, help="Number of the run; `submissions show` prints it."
        ),
    ],
    case: Annotated[int, typer.Option("--case", min=0, help="Index of the case.")],
    stage: Annotated[
        str | None,
        typer.Option(
            "--stage",
            help="test, benchmark or ranked; default: the stage in which the run failed, else the last.",
        ),
    ] = None,
    input_number: Annotated[
        int | None,
        typer.Option(
            "--input", min=0, help="Number of the case's input; default: the one that failed, else the first."
        ),
    ] = None,
    twin: Annotated[
        bool,
        typer.Option(
            "--twin",
            help="With --input: use the first near-twin of that input, which differs in one element.",
        ),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option("--device", "-d", help="Device; default: the run's device, else this machine's best."),
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Repeat one sample of a finished run, on this machine, from its revealed seed.

    Calls the submission once on exactly the input of that run, and stores nothing. A
    server provides the run, the submission and the task; its hidden cases stay on the server.

    Exit codes as for `kernelcup run`.
    """
    from kernelcup.app.results.replay import find_run, replay_job
    from kernelcup.cli.show.working import working

    if twin and input_number is None:
        raise InvalidValue("--twin: name its input with --input")
    wanted = read_stage(stage)
    settings = wiring.load_config(config)
    with (
        open_backend(server, local, config) as backend,
        wiring.pointing_to(f"kernelcup submissions list{backend.option}", NotFound),
    ):
        found = backend.ask(lambda db: find_run(db, run_id), lambda api: find_there(backend, api, run_id))
    known = {each.name for each in settings.devices}
    chosen = wiring.pick_device(settings, device or (found.device if found.device in known else None))
    spec = replay_job(
        found,
        case=case,
        backend=chosen.backend,
        stage=wanted,
        input_number=input_number,
        twin=twin,
    )
    about = f"run {run_id}: one case again on {chosen.name}"
    with working(about, quiet=as_json) as say:
        launcher = wiring.make_local(settings, say)
        report = launcher.run(spec, chosen, on_event=lambda _: None, cancelled=threading.Event()).report
    if as_json:
        typer.echo(json.dumps(as_object(found, spec, report)))
    else:
        show(found, spec, report)
    raise typer.Exit(exit_codes.VERDICTS[report.verdict])


def find_there(backend: Backend, api: Api, run_id: int) -> FoundRun:
    """Return a server's run with its submission and task. Raise ``NotFound`` or ``InvalidValue``."""
    from kernelcup.app.queue import shown
    from kernelcup.app.results.replay import FoundRun
    from kernelcup.client.requests import path_of

    report, name, task_hash, submission, device = api.ask(
        lambda body: (
            from_json(RunReport, body["report"]),
            str(body["leaderboard"]),
            body["task_hash"],
            int(body["submission"]),
            str(body["device"]),
        ),
        path_of("runs", run_id),
    )
    board = api.board(name)
    if task_hash != board.task_hash:
        raise InvalidValue(
            f"run {run_id} was judged against an earlier version of the task of {board.name}; the server "
            "provides only the current version. On its machine: kernelcup replay --local"
        )
    return FoundRun(
        run_id=run_id,
        report=report,
        submission_id=submission,
        device=device,
        task=api.whole_task(board.name),
        code=backend.call(shown.show_code, submission_id=submission).tree,
    )


def read_stage(text: str | None) -> StageName | None:
    """Return the stage of that name. Raise ``InvalidValue``."""
    if text is not None and text not in STAGES:
        raise InvalidValue(f"--stage {text}: expected one of {', '.join(STAGES)}")
    return None if text is None else StageName(text)


def show(found: FoundRun, spec: JobSpec, report: RunReport) -> None:
    """Print the repeated sample and its outcome."""
    from kernelcup.cli.show import render, terminal
    from kernelcup.reporting.report import blocks

    assert spec.replay is not None
    sample = spec.replay.sample
    twin = f", with one element changed (twin {sample.part})" if sample.twin else ""
    typer.echo(
        plain(
            f"run {found.run_id} (submission #{found.submission_id} on {found.device}): "
            f"{spec.replay.stage.value} case {spec.replay.case}, input {sample.input}{twin}"
        )
    )
    about = f"kernelcup submissions show {found.submission_id}"
    # Without the ranking rule: a single call has no score.
    render.show(terminal.console(), blocks(report, about=about))
    if report.environment.get("device") != found.report.environment.get("device"):
        typer.echo("This is a different kind of device than the run's: rounding may differ.")


def as_object(found: FoundRun, spec: JobSpec, report: RunReport) -> dict[str, object]:
    """Return the object that ``--json`` prints."""
    return {
        "run": found.run_id,
        "submission": found.submission_id,
        "replay": to_json(spec.replay),
        "verdict": report.verdict.value,
        "reason": report.reason.value,
        "report": to_json(report),
    }
