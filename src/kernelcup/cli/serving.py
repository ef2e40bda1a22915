"""``kernelcup serve``: work off the queue until told to stop."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli.options import ConfigOption
from kernelcup.cli.texts import plain

if TYPE_CHECKING:
    from kernelcup.services.progress import Progress


def serve(
    config: ConfigOption = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing waits any more.")
    ] = False,
) -> None:
    """Judge what is submitted, until told to stop.

    All devices of this machine are served. Several servers may run at once on one database. A job
    whose server was killed goes to the next one.
    """
    from kernelcup.cli import platform

    settings = platform.load_config(config)
    with platform.open_database(settings) as db:
        dispatcher = platform.make_dispatcher(settings, db, log)
        names = ", ".join(device.name for device in settings.devices)
        typer.echo(f"serving {names} from {db.engine.url!r}")
        if until_idle:
            dispatcher.run_until_idle()
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        dispatcher.run_forever(stop)


def log(progress: Progress) -> None:
    """Print one line for each step of a job."""
    from kernelcup.services import progress as steps

    match progress:
        case steps.JobStarted():
            text = "started"
        case steps.JobProgress(event={"event": "stage_end", "stage": stage, "verdict": verdict}):
            text = f"{stage} stage: {verdict}"
        case steps.JobFinished(run=run):
            text = f"{run.verdict.value} after {run.report.duration_s:.1f} s"
        case steps.JobRetried(reason=reason):
            text = f"will be tried again: {reason}"
        case steps.JobReturned(reason=reason):
            text = f"waits again: {reason}"
        case steps.GpuOut(fault=fault):
            typer.echo(plain(f"GPU {fault.gpu} is out of service: {fault.reason}"))
            return
        case steps.GpuBack(fault=fault):
            typer.echo(plain(f"GPU {fault.gpu} is in service again"))
            return
        case steps.JobDropped():
            text = "dropped: it was cancelled, deleted or taken over"
        case _:
            return
    job = progress.job
    where = f"submission {job.submission_id}, {job.device}, {job.mode.value}"
    typer.echo(plain(f"job {job.id}.{job.attempt} ({where}): {text}"))
