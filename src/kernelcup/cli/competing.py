"""``kernelcup submit``, ``watch``, ``cancel`` and ``standings``."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli.options import (
    ConfigOption,
    JsonOption,
    ModeOption,
    SubmissionFile,
    SubmissionId,
    UserOption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelcup.config import Config
    from kernelcup.domain import Standing
    from kernelcup.services.progress import Progress
    from kernelcup.services.submissions import SubmissionView
    from kernelcup.storage.database import Database
    from kernelcup.storage.faults import DeviceFault

POLL_INTERVAL_S = 0.5


def submit(
    file: SubmissionFile,
    board: Annotated[
        str | None,
        typer.Option("--board", "-b", help="Leaderboard; else `#!POPCORN leaderboard NAME` in the file."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device", "--gpu", "-d", help="May be given several times; else `#!POPCORN gpus A B`."
        ),
    ] = None,
    mode: ModeOption = "leaderboard",
    user: UserOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Judge now and show the report.")] = True,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Submit FILE to a leaderboard, by default ranked.

    With --no-wait it is queued for `kernelcup serve`. Exit codes as for `kernelcup run`; of several
    devices the first that is not accepted counts.
    """
    from kernelcup.cli import options, platform
    from kernelcup.cli.screening import second_opinion
    from kernelcup.cli.submissions import finish
    from kernelcup.errors import DeviceNeeded, LeaderboardNeeded, NotFound, UnknownDevice
    from kernelcup.services.submit import submit as accept

    settings = platform.load_config(config)
    wanted = options.read_mode(mode)
    content = platform.read_file(file)
    list_boards = "kernelcup board list"
    with (
        platform.open_database(settings) as db,
        platform.pointing_to(list_boards, NotFound),
        platform.pointing_to(list_boards, LeaderboardNeeded),
        platform.pointing_to("name it with --device", DeviceNeeded),
        platform.pointing_to(list_boards, UnknownDevice),
    ):
        if wait:
            platform.make_dispatcher(settings, db)  # what cannot be judged here is not accepted first
        submission = accept(
            db,
            user=platform.user_name(user),
            file_name=os.fsencode(file.name).decode("utf-8", "replace"),
            content=content,
            mode=wanted,
            now=datetime.now(UTC),
            board=board,
            devices=device or (),
            second_opinion=second_opinion(settings),
        )
        if not as_json:
            typer.echo(
                f"submission {submission.id} to {submission.leaderboard} ({', '.join(submission.devices)})"
            )
        if wait:
            follow(settings, db, submission.id, quiet=as_json)
        elif not as_json:
            typer.echo(f"Next: kernelcup watch {submission.id}   (a `kernelcup serve` judges it)")
        finish(db, submission.id, as_json=as_json, silent=not wait)


def follow(settings: Config, db: Database, submission_id: int, *, quiet: bool) -> None:
    """Work off the queue until a submission has ended, with a live line for its stages."""
    from kernelcup.cli import platform, render
    from kernelcup.services.fitness import outage_text
    from kernelcup.services.progress import GpuOut, JobProgress
    from kernelcup.services.submissions import show_submission

    wanted = show_submission(db, submission_id).submission.devices
    with render.StageLines(quiet=quiet) as lines:

        def take(progress: Progress) -> None:
            if isinstance(progress, JobProgress) and progress.job.submission_id == submission_id:
                lines.take(progress.event)
            if isinstance(progress, GpuOut) and progress.fault.device in wanted:
                lines.say(outage_text([progress.fault]))

        try:
            platform.make_dispatcher(settings, db, take).run_until(submission_id)
        except BaseException as error:
            error.add_note(
                f"submission {submission_id} stays in the queue; `kernelcup serve` judges it, "
                f"`kernelcup cancel {submission_id}` withdraws it"
            )
            raise


def watch(submission_id: SubmissionId, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Wait for a submission's report.

    Another process, such as `kernelcup serve`, judges it. Exit codes as for `kernelcup run`.
    """
    from kernelcup.cli import platform
    from kernelcup.cli.submissions import finish
    from kernelcup.errors import NotFound
    from kernelcup.services.fitness import outages
    from kernelcup.services.submissions import show_submission

    with (
        platform.open_database(platform.load_config(config)) as db,
        platform.pointing_to("kernelcup submissions list", NotFound),
    ):
        last = ""
        while not (view := show_submission(db, submission_id)).ended:
            now = progress_text(view, outages(db, now=datetime.now(UTC)))
            if now != last and not as_json:
                typer.echo(now)
            last = now
            time.sleep(POLL_INTERVAL_S)
        finish(db, submission_id, as_json=as_json)


def progress_text(view: SubmissionView, out: Sequence[DeviceFault] = ()) -> str:
    """Say in one line where the jobs of a submission are, and what of their devices is out of service."""
    from kernelcup.cli.texts import plain
    from kernelcup.domain import JobState
    from kernelcup.services.fitness import outage_text

    parts = []
    for each in view.jobs:
        place = f", place {each.position}" if each.position is not None else ""
        parts.append(f"{each.job.device}: {each.job.state.value}{place}")
    idle = all(each.job.state is not JobState.RUNNING for each in view.jobs)
    waiting = {each.job.device for each in view.jobs if each.job.state is JobState.QUEUED}
    if told := outage_text(fault for fault in out if fault.device in waiting):
        return plain(f"{'; '.join(parts)}   ({told})")
    return "; ".join(parts) + ("   (is a `kernelcup serve` running?)" if idle else "")


def cancel(
    submission_id: SubmissionId,
    user: UserOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Cancel what is left of a submission.

    What waits is withdrawn, a run that has begun is ended within seconds.
    """
    from kernelcup.cli import platform
    from kernelcup.errors import Forbidden, NotFound
    from kernelcup.services.submissions import cancel_submission
    from kernelcup.services.users import actor_of

    with (
        platform.open_database(platform.load_config(config)) as db,
        platform.pointing_to("kernelcup submissions list", NotFound),
        platform.pointing_to("say who you are with --user", Forbidden),
    ):
        count = cancel_submission(
            db, submission_id, by=actor_of(db, platform.user_name(user)), now=datetime.now(UTC)
        )
    if as_json:
        typer.echo(json.dumps({"submission": submission_id, "cancelled_jobs": count}))
    else:
        typer.echo(f"{count} job{'' if count == 1 else 's'} of submission {submission_id} cancelled")


def standings(
    board: Annotated[
        str | None, typer.Argument(metavar="BOARD", help="Leaderboard; default: the only one.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Only this one; default: all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many places at most.")] = 50,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show the ranking of a leaderboard, one for each device."""
    from kernelcup.cli import platform, render
    from kernelcup.cli.board import find_board
    from kernelcup.services import rank

    with platform.open_database(platform.load_config(config)) as db:
        found = find_board(db, only_board(db) if board is None else board)
        devices = [rank.board_device(found, device)] if device is not None else list(found.devices)
        tables = {name: rank.standings(db, found.name, name, limit=limit) for name in devices}
    if as_json:
        body = {name: [place_object(place) for place in places] for name, places in tables.items()}
        typer.echo(json.dumps({"leaderboard": found.name, "standings": body}))
        return
    out = render.console()
    for name, places in tables.items():
        render.standings(out, found, name, places)


def only_board(db: Database) -> str:
    """Return the name of the only leaderboard. Raise ``InvalidValue`` if there is not just one."""
    from kernelcup.errors import InvalidValue, NotFound
    from kernelcup.services.boards import list_boards

    names = [board.name for board in list_boards(db)]
    if not names:
        raise NotFound("there is no leaderboard yet; kernelcup board create TASK makes one")
    if len(names) > 1:
        raise InvalidValue(f"which leaderboard? There are {', '.join(names)}")
    return names[0]


def place_object(place: Standing) -> dict[str, object]:
    """Return a standing as ``--json`` prints it."""
    return {
        "rank": place.rank,
        "user": place.user,
        "score_s": place.score_s,
        "submission": place.submission_id,
        "submitted_at": place.submitted_at.isoformat(),
        "file_name": place.file_name,
        "trust": place.trust,
        "comparable": place.comparable,
    }
