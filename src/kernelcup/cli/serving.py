"""``kernelcup serve``: work off the queue until told to stop."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.options import ConfigOption

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
        typer.echo(
            f"serving {', '.join(device.name for device in settings.devices)} from {settings.database_url}"
        )
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

    details: dict[type[Any], str] = {
        steps.JobStarted: "started",
        steps.JobReturned: "handed back",
    }
    kind = type(progress)
    if isinstance(progress, steps.JobFinished):
        text = f"{progress.run.verdict.value} after {progress.run.report.duration_s:.1f} s"
    elif isinstance(progress, (steps.JobRetried, steps.JobDropped)):
        text = f"{'will be tried again' if kind is steps.JobRetried else 'dropped'}: {progress.reason}"
    elif kind in details:
        text = details[kind]
    else:
        return
    job = progress.job
    typer.echo(
        f"job {job.id}.{job.attempt} (submission {job.submission_id}, {job.device}, {job.mode.value}): {text}"
    )
