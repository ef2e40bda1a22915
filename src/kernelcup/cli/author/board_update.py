"""``kernelcup board update`` and ``sync``, ``kernelcup admin stats``: for managers."""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.author import board_settings as settings_of
from kernelcup.cli.backend.base import Venue
from kernelcup.cli.backend.opening import with_place, with_venue
from kernelcup.cli.backend.place import Place, given, reader
from kernelcup.cli.options import BoardArgument, BoardHarnessOption, HarnessOption, JsonOption, UserOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelcup.cli.backend.base import Update, Venue
    from kernelcup.services.boards.changes import Affected, UpdatePreview
    from kernelcup.services.boards.problem_sync import SyncOptions, SyncResult
    from kernelcup.services.stats import Stats
    from kernelcup.storage.engine.database import Database

PreviewOption = Annotated[bool, typer.Option("--preview", help="Only show what would change.")]
RejudgeOption = Annotated[
    bool, typer.Option("--rejudge", help="Judge again all results that are no longer comparable.")
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", help="Allow removing devices that have submissions, and revealing names or code."
    ),
]


@with_venue
def update(
    venue: Venue,
    name: BoardArgument,
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="New version: folder, zip, .py file, or a name.")
    ] = None,
    device: settings_of.DeviceOption = None,
    deadline: settings_of.DeadlineOption = None,
    opens: settings_of.OpensOption = None,
    freeze: settings_of.FreezeOption = None,
    closed: settings_of.ClosedOption = None,
    pseudonymous: settings_of.PseudonymousOption = None,
    code: settings_of.CodeOption = None,
    max_file_bytes: settings_of.SizeOption = None,
    review_tag: settings_of.ReviewTagOption = None,
    trust: settings_of.TrustOption = None,
    duel: settings_of.DuelOption = None,
    event: settings_of.EventOption = None,
    harness: HarnessOption = None,
    preview: PreviewOption = False,
    rejudge: RejudgeOption = False,
    force: ForceOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Change a leaderboard's settings or task, after a preview of the consequences.

    The word none removes a deadline, an opening, a freeze, a size limit, an event or the review tags.
    """
    from kernelcup.cli import options
    from kernelcup.cli.backend.base import Update

    given = settings_of.read(
        datetime.now(UTC),
        deadline=deadline,
        opens=opens,
        freeze=freeze,
        closed=closed,
        pseudonymous=pseudonymous,
        code=code,
        max_file_bytes=max_file_bytes,
        review_tags=review_tag,
        trust=trust,
        duel=duel,
        event=event,
    )
    if device:
        given["devices"] = device
    kind = options.read_harness(harness)
    if kind is not None:
        given["harness"] = kind
    wanted = Update(board=name, task=task, settings=given)
    change(venue, wanted, preview=preview, rejudge=rejudge, force=force, yes=yes, as_json=as_json)


def change(
    venue: Venue,
    wanted: Update,
    *,
    preview: bool,
    rejudge: bool,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what changes, ask, and do it."""
    from kernelcup.cli.author.board import find_board
    from kernelcup.errors import InvalidValue

    find_board(venue, wanted.board)
    seen = venue.preview(wanted)
    if not as_json:
        show_preview(seen)
    if preview or not seen.changes_anything:
        if as_json:
            typer.echo(json.dumps({**preview_object(seen), "updated": False}))
        return
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise InvalidValue("not a terminal: inspect with --preview, confirm with --yes")
        typer.confirm(f"Change {seen.board}?", abort=True)
    done = venue.update(wanted, seen, rejudge=rejudge, force=force)
    if as_json:
        jobs = done.rejudged_jobs or 0
        typer.echo(json.dumps({**preview_object(seen), "updated": True, "rejudged_jobs": jobs}))
        return
    typer.echo(f"leaderboard {done.board} is changed")
    if done.rejudged_jobs is not None:
        typer.echo(f"{done.rejudged_jobs} ranked results are judged again")
    elif seen.needs_rejudge:
        typer.echo(left_standings([done.board], venue.option))


def left_standings(names: Sequence[str], option: str) -> str:
    """Warn that results left the standings, and show how to bring them back."""
    lines = "\n".join(f"  kernelcup admin rejudge {name}{option}" for name in names)
    return (
        "Earlier results are not comparable with new ones. They are out of the standings until judged again:\n"
        + lines
    )


def show_preview(seen: UpdatePreview) -> None:
    """Print what changes, for people."""
    from kernelcup.cli.show.plain_text import plain, shortened

    if not seen.changes_anything:
        typer.echo(f"nothing changes in {seen.board}")
        return
    for name, (old, new) in seen.settings.items():
        typer.echo(plain(f"{name}: {setting(old)} -> {setting(new)}"))
    for file in seen.files:
        typer.echo(plain(f"{file.name} {file.kind}: +{file.added} -{file.removed} lines"))
        if file.kind == "changed" and file.diff:
            typer.echo(shortened(file.diff, first=40, last=10))
    for case in seen.cases:
        parts = [json.dumps(each) for each in (case.old, case.new) if each is not None]
        typer.echo(plain(f"{case.group} {case.kind}: {' -> '.join(parts)}"))
    for group, (before, after) in seen.hidden.items():
        typer.echo(f"{group.replace('_', ' ')} changed: {before} -> {after} cases")
    show_consequences(seen)


def show_consequences(seen: UpdatePreview) -> None:
    """Print what a change means for the ranking."""
    from kernelcup.cli.show.plain_text import plain

    if seen.reasons:
        typer.echo(plain(f"results from before and after are not comparable: {'; '.join(seen.reasons)}"))
    if seen.needs_rejudge:
        typer.echo(
            "earlier results leave the standings until they are judged again (--rejudge does so at once)"
        )
    if seen.needs_rejudge:
        for each in seen.affected:
            typer.echo(f"  {each.device}: {each.entries} standings, {each.jobs} ranked results{taking(each)}")
    for what in seen.reveals:
        typer.echo(
            f"contrary to what was promised when people submitted, {what}; this needs --force, and they are notified"
        )
    for device in seen.removed_in_use:
        typer.echo(plain(f"{device} has submissions; removing it needs --force"))


def taking(each: Affected) -> str:
    """Describe how long it takes to judge a device's results again."""
    return "" if each.gpu_s is None else f", about {each.gpu_s / 60:.0f} min to judge again"


def setting(value: object) -> str:
    """Return a setting as people read it."""
    from kernelcup.cli.author.board import moment
    from kernelcup.services.boards.changes import as_json

    if value is None:
        return "none"
    if isinstance(value, datetime):
        return moment(value)
    plain_value = as_json(value)
    if isinstance(plain_value, list):
        return ", ".join(map(str, plain_value)) or "none"
    return str(plain_value)


def preview_object(seen: UpdatePreview) -> dict[str, Any]:
    """Return a preview as ``--json`` prints it."""
    from kernelcup.services.boards.changes import as_json

    settings = {
        name: {"old": as_json(old), "new": as_json(new)} for name, (old, new) in seen.settings.items()
    }
    return {
        "leaderboard": seen.board,
        "fingerprint": seen.fingerprint,
        "settings": settings,
        "files": [dataclasses.asdict(file) for file in seen.files],
        "cases": [dataclasses.asdict(case) for case in seen.cases],
        "hidden": {name: {"old": old, "new": new} for name, (old, new) in seen.hidden.items()},
        "needs_rejudge": seen.needs_rejudge,
        "reasons": list(seen.reasons),
        "affected": [dataclasses.asdict(each) for each in seen.affected],
        "estimated_gpu_s": seen.estimated_gpu_s,
        "removed_in_use": list(seen.removed_in_use),
        "reveals": list(seen.reveals),
    }


@with_place
def sync(
    place: Place,
    repository: Annotated[
        str, typer.Argument(metavar="REPOSITORY", help="An https URL, or a path on this machine.")
    ],
    branch: Annotated[str, typer.Option("--branch", "-b", help="Its branch.")] = "main",
    problem_set: Annotated[
        str | None,
        typer.Option("--problem-set", help="Name of one problems/*.yaml file; default: all of them."),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix for the leaderboards' names.")] = "",
    device: Annotated[
        list[str] | None,
        typer.Option("--device", "-d", help="Replaces the devices that each problem names; may be repeated."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", help="Replaces each problem's own deadline; none removes it.")
    ] = None,
    closed: settings_of.ClosedOption = None,
    harness: BoardHarnessOption = None,
    preview: PreviewOption = False,
    rejudge: RejudgeOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also apply changes that make earlier results incomparable.")
    ] = False,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create and update the leaderboards of a git repository's problem sets.

    A device that is not configured here or cannot judge a problem is left out; the problem keeps the others.
    Exit code 0 if every problem has its leaderboard as the repository has it, 3 if one was left as it is.
    New leaderboards use the standard harness if the task's own solutions pass under it. If only the task's
    own harness can judge it, --harness own permits that. A server fetches from an https URL, and accepts only
    --branch, --problem-set, --device, --deadline, --harness, --preview and --force.
    """
    from kernelcup.cli import exit_codes, options
    from kernelcup.domain import Visibility
    from kernelcup.services.boards.changes import KEEP
    from kernelcup.services.boards.deadlines import parse_deadline
    from kernelcup.services.boards.problem_sync import SyncOptions

    kind = options.read_harness(harness)
    until = None if deadline in (None, settings_of.NONE) else parse_deadline(deadline, datetime.now(UTC))
    if place.server is not None:
        refuse_local_options(prefix=prefix, closed=closed, rejudge=rejudge, user=user)
    chosen = SyncOptions(
        force=force,
        preview=preview,
        prefix=prefix,
        creator=user,
        visibility=None if closed is None else Visibility.CLOSED if closed else Visibility.PUBLIC,
        harness=kind,
        rejudge=rejudge,
        devices=tuple(device or ()),
        deadline=KEEP if deadline is None else until,
    )
    result = work_sync(place, repository, branch=branch, problem_set=problem_set, chosen=chosen)
    is_here = place.server is None and user is None and bool(result.created) and not result.preview
    local_owner = place.board(result.created[0]).creator if is_here else ""
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(result)))
    else:
        show_sync(result, place.option)
        if local_owner and result.created:
            typer.echo(f"Their owner is {local_owner}; choose another owner for new ones with --user NAME.")
    if not result.is_complete:
        raise typer.Exit(exit_codes.USER_ERROR)


def work_sync(
    place: Place, repository: str, *, branch: str, problem_set: str | None, chosen: SyncOptions
) -> SyncResult:
    """Sync on this machine, or through the server."""
    from kernelcup.cli import wiring
    from kernelcup.client.api import LONG_S
    from kernelcup.domain import OPERATOR
    from kernelcup.services.boards.changes import Keep
    from kernelcup.services.boards.problem_sync import SyncResult, sync_problem_set

    def here(db: Database) -> SyncResult:
        options = dataclasses.replace(
            chosen,
            creator=wiring.creator_name(db, chosen.creator),
            known_devices=place.config.devices,
            trial=wiring.make_trial(place.config),
        )
        return sync_problem_set(
            db,
            OPERATOR,
            repository=repository,
            branch=branch,
            problem_set=problem_set,
            options=options,
            now=datetime.now(UTC),
        )

    wanted: dict[str, object] = {
        "repository": repository,
        "branch": branch,
        "problem_set": problem_set,
        "force": chosen.force,
        "preview": chosen.preview,
        "harness": chosen.harness and chosen.harness.value,
    }
    # Sent only when given: an older server does not know these fields.
    if chosen.devices:
        wanted["devices"] = list(chosen.devices)
    if not isinstance(chosen.deadline, Keep):
        wanted["deadline"] = None if chosen.deadline is None else chosen.deadline.isoformat()
    return place.ask(
        here,
        lambda api: api.ask(reader(SyncResult), "POST", "/problem-sets/sync", json=wanted, timeout_s=LONG_S),
    )


def refuse_local_options(*, prefix: str, closed: bool | None, rejudge: bool, user: str | None) -> None:
    """Raise ``InvalidValue`` for sync options that a server does not accept."""
    from kernelcup.cli.backend.server import refuse_user
    from kernelcup.errors import InvalidValue

    refuse_user(user)
    given = {
        "--prefix": bool(prefix),
        "--closed/--public": closed is not None,
        "--rejudge": rejudge,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidValue(
                f"{name}: a server does not accept this option; change the leaderboards with `kernelcup board update`, "
                "or sync on the machine of the database (--local)"
            )


def show_sync(result: SyncResult, option: str) -> None:
    """Print what a sync did, for people."""
    from kernelcup.cli.show.plain_text import plain

    would = "would be " if result.preview else ""
    typer.echo(f"commit {result.commit}")
    for name in result.created:
        typer.echo(f"{name}: {would}created")
    for told in result.notes:
        typer.echo(plain(f"{told.name}: {told.note}"))
    for name in result.updated:
        typer.echo(f"{name}: {would}updated")
    for each in result.devices_left_out:
        typer.echo(plain(f"{each.name}: a device is left out. {each.reason}"))
    for each in result.skipped:
        typer.echo(plain(f"{each.name}: skipped, {each.reason}"))
    for problem in result.errors:
        typer.echo(plain(f"{problem.name}: error: {problem.error}"))
    if result.left_standings and not result.preview:
        typer.echo(left_standings(result.left_standings, option))


@with_place
def stats(
    place: Place,
    board: Annotated[str | None, typer.Option("--board", help="Only for this leaderboard.")] = None,
    last_day: Annotated[bool, typer.Option("--last-day", help="Only submissions since then.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how much was submitted and judged."""
    from datetime import timedelta

    from kernelcup.domain import OPERATOR
    from kernelcup.services.boards.changes import as_json as plain_value
    from kernelcup.services.stats import Stats
    from kernelcup.services.stats import stats as figures

    now = datetime.now(UTC)
    since = now - timedelta(days=1) if last_day else None
    found = place.ask(
        lambda db: figures(db, OPERATOR, board=board, since=since, now=now),
        lambda api: api.ask(
            reader(Stats),
            "GET",
            "/stats",
            params=given(leaderboard=board, since=None if since is None else since.isoformat()),
        ),
    )
    if as_json:
        body = {name: plain_value(getattr(found, name)) for name in found.__slots__}
        typer.echo(json.dumps(body))
    else:
        show_stats(found)


def show_stats(found: Stats) -> None:
    """Print figures for people."""
    from kernelcup.cli.show import tables, terminal

    where = f"leaderboard {found.board}" if found.board is not None else "all leaderboards"
    when = "" if found.since is None else f" since {found.since:%Y-%m-%d %H:%M:%S} UTC"
    typer.echo(
        f"{where}{when}: {found.submissions} submissions ({found.unique_codes} different) "
        f"by {found.users} users; {found.waiting} jobs wait, {found.running} run"
    )
    out = terminal.console()
    if found.devices:
        columns = ("device", "runs", "passed", "scored", "mean delay", "longest delay", "run time")
        table = tables.new_table(*columns, right=columns[1:])
        for each in found.devices:
            delays = (seconds(each.mean_delay_s), seconds(each.longest_delay_s))
            cells = (each.device, each.runs, each.passed, each.scored, *delays, seconds(each.run_s))
            table.add_row(*map(tables.cell, cells))
        tables.print_table(out, "Devices", table, drop=("longest delay", "scored", "mean delay"))
    if found.top_users:
        table = tables.new_table("user", "run time", right=("run time",))
        for user in found.top_users:
            table.add_row(tables.cell(user.user), tables.cell(seconds(user.run_s)))
        tables.print_table(out, "Most time on devices", table)


def seconds(value: float | None) -> str:
    """Return a number of seconds as people read it."""
    return "-" if value is None else f"{value:.1f} s"
