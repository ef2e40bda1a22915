"""``kernelcup demo``: a whole competition on this machine, with real evaluations."""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import shlex
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.config.local_devices import CPU
from kernelcup.domain import OPERATOR, Device, Scope, Submission
from kernelcup.errors import Conflict
from kernelcup_harness.protocol import Backend, Mode

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database

# Leaderboard, user, and one of the task's files; GPU-only submissions are too slow to interpret.
ENTRIES = (
    ("grayscale", "linus", "solutions/loop_over_pixels.py", False),
    ("grayscale", "grace", "solutions/loop_over_rows.py", False),
    ("grayscale", "ada", "template.py", False),
    ("vectoradd", "ada", "template.py", False),
    ("vectoradd", "grace", "solutions/torch_add_with_output.py", False),
    ("vectoradd", "linus", "solutions/wrong_last_element.py", False),
    ("vectoradd", "linus", "solutions/exception_in_call.py", False),
    ("vectoradd", "linus", "template_triton.py", True),
)
ON_CPU, ON_BEST = BOARDS = ("grayscale", "vectoradd")
"""The leaderboard whose times count without a GPU, and the one on this machine's best device."""
SMALL_IMAGE = {"height": 64, "width": 8, "seed": 31232}
"""Small, so that a loop over its pixels gets its 16 samples on a busy machine too."""
MARKER = "made-by-kernelcup-demo"
CREATOR = "demo"
SITE = "site"


def demo(
    directory: Annotated[
        Path, typer.Option("--directory", help="Folder for the demo's database and site.")
    ] = Path("kernelcup-demo"),
) -> None:
    """Show a whole competition on this machine.

    Creates two leaderboards, judges the submissions of three users, and shows the standings. One is on the
    processor, and its times rank. The other is on this machine's best device: a GPU if there is one, else the
    emulated device, which shows only which answers are right.
    """
    from kernelcup.cli.show import terminal
    from kernelcup.config.settings import Config

    began = time.monotonic()
    folder = directory.absolute()
    clear(folder)
    # The demo uses its own database, whatever is configured.
    foreign = ("KERNELCUP_DATABASE", "KERNELCUP_CONFIG")
    environ = {name: value for name, value in os.environ.items() if name not in foreign}
    settings = Config.load(None, environ | {"KERNELCUP_HOME": str(folder)})
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else 110
    out = terminal.PlainConsole(highlight=False, soft_wrap=not is_terminal, width=width)
    device = wiring.pick_device(settings, None)
    settings = with_or_without_sandbox(settings)
    with wiring.open_database(settings) as db:
        devices = {ON_CPU: CPU.name, ON_BEST: device.name}
        names = " and ".join(devices.values())
        out.print(f"A competition on {names}, stored in {folder}", markup=False, style="bold")
        make_boards(db, settings, devices)
        wrong = compete(out, db, settings, device)
        show_results(out, db, devices, wrong)
        page = write_pages(db, settings, folder / SITE)
    next_steps(out, directory, wrong, time.monotonic() - began)
    show_site(out, directory, page, wrong)


def write_pages(db: Database, settings: Config, folder: Path) -> Path:
    """Write the site as the demo's creator sees it, and return the path of its first page."""

    import structlog

    from kernelcup.app.access import HERE
    from kernelcup.app.people import tokens
    from kernelcup.app.submissions.submissions import list_views
    from kernelcup.http.state import Platform
    from kernelcup.http.static_site import write_site

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    platform = Platform(db=db, config=settings, secret=secrets.token_hex())
    token = tokens.create_token(
        db,
        OPERATOR,
        name="demo site",
        scopes=[Scope.READ, Scope.INSPECT],
        entry=HERE,
        now=datetime.now(UTC),
        for_user=CREATOR,
    )
    try:
        every = list_views(db, limit=len(ENTRIES))
        return write_site(platform, folder, token=token.secret, also=[f"/s/{each.id}" for each in every])
    finally:
        tokens.revoke_token(db, OPERATOR, token.id, datetime.now(UTC))


def show_site(out: Console, directory: Path, page: Path, wrong: Submission) -> None:
    """Print the site's location and the command that serves it."""
    home = f"KERNELCUP_HOME={shlex.quote(str(directory))}"
    command = "kernelcup" if shutil.which("kernelcup") else shlex.quote(sys.argv[0])
    out.print("\nThe leaderboards and reports as pages, which open from the disk:", markup=False)
    out.print(f"  {page.as_uri()}", markup=False)
    out.print(f"  {page.with_name('s').as_uri()}/{wrong.id}.html  (the wrong answer)", markup=False)
    out.print("The same with sign-in and submitting:", markup=False)
    out.print(f"  {home} {command} serve", markup=False)


def with_or_without_sandbox(settings: Config) -> Config:
    """Return the demo's settings; its submissions ship with KernelCup, so no sandbox is required."""
    found = wiring.describe_harness()["sandbox"]
    if found["kind"] != "none" and "unranked" not in found:
        return settings
    typer.echo(
        f"{found.get('unranked', 'No sandbox works here')}. The demo runs its own submissions anyway; a real "
        "competition would refuse ranked runs. `kernelcup doctor` shows how to get a sandbox.",
        err=True,
    )
    return dataclasses.replace(settings, sandbox_required=False)


def clear(folder: Path) -> None:
    """Remove what an earlier demo left in ``folder``, and nothing else.

    Raise ``Conflict`` if the database there is not a demo's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "kernelcup.db").exists() and not (folder / MARKER).exists():
        raise Conflict(f"{folder} has a database that is not a demo's; choose another --directory")
    (folder / MARKER).touch()
    for name in ("kernelcup.db", "kernelcup.db-wal", "kernelcup.db-shm", "index.html"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / SITE, ignore_errors=True)


def make_boards(db: Database, settings: Config, devices: dict[str, str]) -> None:
    """Make both leaderboards, given the device of each."""
    from kernelcup.app.boards.boards import create_board

    small = dataclasses.replace(wiring.find_task(ON_CPU), benchmarks=[SMALL_IMAGE], work=[])
    for name, device in devices.items():
        create_board(
            db,
            name=name,
            task=small if name == ON_CPU else wiring.find_task(name),
            devices=[device],
            creator=CREATOR,
            now=datetime.now(UTC),
            known_devices=settings.devices,
            cpu_times=name == ON_CPU,
        )


def compete(out: Console, db: Database, settings: Config, device: Device) -> Submission:
    """Submit and judge everything; return a submission that is wrong."""
    from kernelcup.app.queue.progress import JobFinished, JobProgress, JobStarted, Progress
    from kernelcup.cli.show import render

    entries = [entry for entry in ENTRIES if device.backend is Backend.CUDA or not entry[3]]
    submitted: dict[int, Submission] = {}
    out.print(f"{len(entries)} submissions of three users to {' and '.join(BOARDS)}")
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
                with lines.paused():
                    out.print(line)

        dispatcher = wiring.make_dispatcher(settings, db, take)
        # One leaderboard after the other: jobs on another device would disturb times by the wall clock.
        for board in BOARDS:
            made = [submit_file(db, board, user, file) for name, user, file, _ in entries if name == board]
            submitted.update({submission.id: submission for submission in made})
            dispatcher.run_until_idle()
    return next(made for made in submitted.values() if made.file_name == "wrong_last_element.py")


def submit_file(db: Database, board: str, user: str, file: str) -> Submission:
    """Submit one of the files of the leaderboard's task, to be ranked."""
    from kernelcup.app.submissions.submit import submit
    from kernelcup.tasks.shipped import shipped_tasks

    path = shipped_tasks()[board] / file
    return submit(
        db,
        user=user,
        file_name=path.name,
        content=path.read_bytes(),
        mode=Mode.LEADERBOARD,
        now=datetime.now(UTC),
        board=board,
    )


def title(submission: Submission) -> str:
    """Return a submission's name for people."""
    return f"#{submission.id} {submission.leaderboard}: {submission.file_name} by {submission.user}"


def show_results(out: Console, db: Database, devices: dict[str, str], wrong: Submission) -> None:
    """Print both standings and the report of the wrong submission."""
    from kernelcup.app.boards.boards import get_board
    from kernelcup.app.results.standings import standings
    from kernelcup.app.submissions.submissions import show_submission
    from kernelcup.cli.show import ranking, render
    from kernelcup.reporting.report import blocks

    for name, device in devices.items():
        out.print()
        ranking.standings(out, get_board(db, name), device, standings(db, name, device))
    out.print(f"\n[bold]Why {title(wrong)} is not ranked[/]")
    (job,) = show_submission(db, wrong.id).jobs
    if job.report is not None:
        render.show(out, blocks(job.report, about=f"kernelcup task show {wrong.leaderboard}"))


def next_steps(out: Console, directory: Path, wrong: Submission, seconds: float) -> None:
    """Print three commands to try."""
    home = f"KERNELCUP_HOME={shlex.quote(str(directory))}"
    command = "kernelcup" if shutil.which("kernelcup") else shlex.quote(sys.argv[0])
    out.print(f"\nDone in {seconds:.0f} s. Three things to try next:", markup=False)
    out.print(
        f"  {command} task template vectoradd > mine.py && {command} run vectoradd mine.py", markup=False
    )
    out.print(f"  {home} {command} submit mine.py --board vectoradd", markup=False)
    out.print(f"  {home} {command} submissions show {wrong.id}", markup=False)
