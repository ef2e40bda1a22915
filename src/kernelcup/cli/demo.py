"""``kernelcup demo``: a whole competition on this machine, with real evaluations."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.config import Config
    from kernelcup.domain import Device, Submission
    from kernelcup.storage.database import Database

# Leaderboard, user, file among the task's own; those for a GPU only are too slow to interpret.
ENTRIES = (
    ("vectoradd", "ada", "template.py", False),
    ("vectoradd", "grace", "solutions/torch_add_with_output.py", False),
    ("vectoradd", "linus", "solutions/wrong_last_element.py", False),
    ("vectoradd", "linus", "solutions/exception_in_call.py", False),
    ("vectoradd", "linus", "template_triton.py", True),
    ("softmax", "ada", "template.py", False),
    ("softmax", "grace", "solutions/torch_softmax.py", False),
    ("softmax", "linus", "solutions/triton_online_softmax.py", True),
)
BOARDS = ("vectoradd", "softmax")


def demo(
    directory: Annotated[
        Path, typer.Option("--directory", help="Where its database and its page go.")
    ] = Path("kernelcup-demo"),
) -> None:
    """Make a database and two leaderboards, judge the submissions of three users, show the standings.

    On the best device here: a GPU if there is one, else the emulated one.
    """
    from rich.console import Console

    from kernelcup.cli import platform

    began = time.monotonic()
    folder = directory.absolute()
    clear(folder)
    os.environ["KERNELCUP_HOME"] = str(folder)
    out = Console(highlight=False, soft_wrap=True, record=True, width=110)
    settings = platform.load_config()
    device = settings.devices[0]
    with platform.open_database(settings) as db:
        out.print(f"[bold]A competition on {device.name}[/], stored in {folder}", markup=True)
        make_boards(db, settings, device)
        wrong = compete(out, db, settings, device)
        show_results(out, db, device, wrong)
    next_steps(out, directory, wrong, time.monotonic() - began)
    page = folder / "index.html"
    out.save_html(str(page), clear=False)
    typer.echo(f"The same as a page: {page}")


def clear(folder: Path) -> None:
    """Remove what an earlier demo left in ``folder``, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("kernelcup.db", "kernelcup.db-wal", "kernelcup.db-shm", "index.html"):
        (folder / name).unlink(missing_ok=True)


def make_boards(db: Database, settings: Config, device: Device) -> None:
    """Make both leaderboards."""
    from kernelcup.cli import platform
    from kernelcup.services.boards import create_board

    for name in BOARDS:
        create_board(
            db,
            name=name,
            task=platform.find_task(name),
            devices=[device.name],
            creator="demo",
            now=datetime.now(UTC),
            known_devices=settings.devices,
        )


def compete(out: Console, db: Database, settings: Config, device: Device) -> Submission:
    """Submit and judge everything; return a submission that is wrong."""
    from kernelcup.cli import platform, render
    from kernelcup.services.progress import JobFinished, JobProgress, JobStarted, Progress
    from kernelcup.services.submit import submit
    from kernelcup_harness.protocol import Backend, Mode

    entries = [entry for entry in ENTRIES if device.backend is Backend.CUDA or not entry[3]]
    submitted = {}
    for board, user, file, _ in entries:
        path = platform.shipped_tasks()[board] / file
        made = submit(
            db,
            user=user,
            file_name=path.name,
            content=path.read_bytes(),
            mode=Mode.LEADERBOARD,
            now=datetime.now(UTC),
            board=board,
        )
        submitted[made.id] = made
    out.print(f"{len(submitted)} submissions of three users to {' and '.join(BOARDS)}")
    with render.StageLines() as lines:

        def take(progress: Progress) -> None:
            if isinstance(progress, JobStarted):
                lines.relabel(title(submitted[progress.job.submission_id]))
            elif isinstance(progress, JobProgress) and progress.event["event"] != "stage_end":
                lines.take(progress.event)
            elif isinstance(progress, JobFinished):
                line = render.verdict_text(progress.run.verdict)
                line.append(f"  {title(submitted[progress.job.submission_id])}", style="default")
                line.append(f"  {progress.run.report.duration_s:.1f} s", style="dim")
                out.print(line)

        platform.make_dispatcher(settings, db, take).run_until_idle()
    return next(each for each in submitted.values() if each.file_name == "wrong_last_element.py")


def title(submission: Submission) -> str:
    """Name a submission for a person."""
    return f"#{submission.id} {submission.leaderboard}: {submission.file_name} by {submission.user}"


def show_results(out: Console, db: Database, device: Device, wrong: Submission) -> None:
    """Print both standings and the report of the wrong one."""
    from kernelcup.cli import render
    from kernelcup.services.boards import get_board
    from kernelcup.services.rank import standings
    from kernelcup.services.submissions import show_submission

    for name in BOARDS:
        out.print()
        out.print(render.standings(get_board(db, name), device.name, standings(db, name, device.name)))
    out.print(f"\n[bold]Why {title(wrong)} is not ranked[/]")
    (job,) = show_submission(db, wrong.id).jobs
    if job.run is not None:
        render.report(out, job.run.report)


def next_steps(out: Console, directory: Path, wrong: Submission, seconds: float) -> None:
    """Print three commands to try."""
    home = f"KERNELCUP_HOME={directory}"
    command = "kernelcup" if Path(".venv/bin/kernelcup").exists() is False else ".venv/bin/kernelcup"
    out.print(f"\nDone in {seconds:.0f} s. Three things to try next:", markup=False)
    out.print(
        f"  {command} task template vectoradd > mine.py && {command} run vectoradd mine.py", markup=False
    )
    out.print(f"  {home} {command} submit mine.py --board vectoradd", markup=False)
    out.print(f"  {home} {command} submissions show {wrong.id}", markup=False)
