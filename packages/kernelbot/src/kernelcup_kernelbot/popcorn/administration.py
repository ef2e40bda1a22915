"""Routes for admins: pauses, submissions, limits, bans, visibility, statistics."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field, TypeAdapter

from kernelcup.app import stats
from kernelcup.app.boards import boards
from kernelcup.app.boards import changes as board_changes
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.courses import membership
from kernelcup.app.people import accounts
from kernelcup.app.results import dataset
from kernelcup.app.rules import limits, pauses
from kernelcup.app.stats import Stats
from kernelcup.app.submissions import submissions as service
from kernelcup.app.submissions import withdrawal
from kernelcup.domain import Actor, Visibility
from kernelcup.domain.answers import Invite, Limit
from kernelcup.errors import Conflict, NotFound
from kernelcup.http.api.forms import Body
from kernelcup.http.dependencies import Db, Now, Number, PlatformDep
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_kernelbot.popcorn import forms
from kernelcup_kernelbot.popcorn.auth import Admin
from kernelcup_kernelbot.popcorn.errors import PopcornRoute
from kernelcup_kernelbot.popcorn.submissions import check_page, show_in_full

router = APIRouter(prefix="/admin", route_class=PopcornRoute)

HOUR_S = 3600
GROUPS = {"test": "practice", "leaderboard": "ranked"}
LARGEST_PAGE = 1000

Category = Literal["test", "leaderboard"]


class VisibilityIn(Body):
    """The visibility of a leaderboard."""

    visibility: Visibility


class ExportIn(Body):
    """Which leaderboards are exported, and to which file."""

    leaderboard_ids: list[int] = Field(min_length=1, max_length=1000)
    filename: str = Field(pattern=r"^[\w-][\w.-]{0,80}\.parquet$")
    private: bool = True


class RateLimitIn(Body):
    """How often each user may submit to a leaderboard in an hour."""

    mode_category: Category
    max_submissions_per_hour: int = Field(ge=1)


@router.post("/start")
def start(db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Accept submissions again."""
    with suppress(NotFound):  # it accepts them already
        pauses.unpause(db, admin, scope="service", now=now)
    return {"status": "ok", "accepts_jobs": True}


@router.post("/stop")
def stop(db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Stop accepting submissions until `start`, also across restarts."""
    pauses.pause(db, admin, scope="service", reason="try again later", now=now)
    return {"status": "ok", "accepts_jobs": False}


@router.get("/stats")
def show_stats(
    db: Db,
    admin: Admin,
    now: Now,
    last_day_only: bool = False,
    leaderboard_name: Annotated[str | None, Query(max_length=200)] = None,
) -> dict[str, Any]:
    """Count submissions, runs, waiting times and GPU time."""
    since = now - timedelta(days=1) if last_day_only else None
    return {
        "status": "ok",
        "stats": figures(stats.stats(db, admin, board=leaderboard_name, since=since, now=now)),
    }


@router.get("/submissions/{submission_id}")
def show_submission(submission_id: Number, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Show any submission."""
    view = service.show_submission(db, submission_id, viewer=admin)
    shown = show_in_full(db, view, admin, now)
    return {"status": "ok", "submission": {"submission_id": shown["id"], **shown}}


@router.delete("/submissions/{submission_id}")
def delete_submission(submission_id: Number, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Delete any submission permanently."""
    withdrawal.delete_submission(db, submission_id, by=admin, now=now)
    return {"status": "ok", "submission_id": submission_id}


@router.delete("/submissions")
def delete_submissions(
    db: Db,
    admin: Admin,
    now: Now,
    leaderboard_id: int,
    user_name: Annotated[str, Query(min_length=1, max_length=200)],
) -> dict[str, Any]:
    """Delete all submissions of a user to a leaderboard."""
    board = next((each for each in boards.list_boards(db, admin) if each.id == leaderboard_id), None)
    if board is None:
        raise NotFound(f"There is no leaderboard {leaderboard_id}.")
    user = accounts.get_user(db, admin, user_name)
    jobs = runs = count = 0
    for view in _every(db, admin, board.name, user.name):
        try:
            withdrawal.delete_submission(db, view.id, by=admin, now=now)
        except NotFound:
            continue  # its author deleted it meanwhile
        count += 1
        jobs += len(view.jobs)
        runs += sum(each.run is not None for each in view.jobs)
    return {
        "status": "ok",
        "leaderboard_id": leaderboard_id,
        "user_name": user.name,
        "deleted_job_status": jobs,
        "deleted_runs": runs,
        "deleted_submissions": count,
    }


@router.delete("/leaderboards/{leaderboard}")
def delete_leaderboard(
    leaderboard: str, db: Db, admin: Admin, now: Now, force: bool = False
) -> dict[str, Any]:
    """Delete a leaderboard permanently; one with submissions only with force."""
    board = boards.get_board(db, leaderboard, viewer=admin)
    if not force and service.list_views(db, viewer=admin, board=board.name, limit=1):
        raise Conflict(f"Leaderboard {board.name!r} has submissions; --force deletes them too.")
    boards.delete_board(db, board.name, admin, confirm=board.name, now=now)
    return {"status": "ok", "leaderboard": board.name, "force": force}


@router.get("/leaderboards/{leaderboard}/submissions")
def list_submissions(
    leaderboard: str, db: Db, admin: Admin, limit: int = 100, offset: int = 0
) -> dict[str, Any]:
    """List the numbers of a leaderboard's submissions, newest first."""
    check_page(limit, offset, largest=LARGEST_PAGE)
    board = boards.get_board(db, leaderboard, viewer=admin)
    found = service.list_views(db, viewer=admin, board=board.name, limit=offset + limit)
    return {
        "status": "ok",
        "leaderboard": board.name,
        "limit": limit,
        "offset": offset,
        "submission_ids": [view.id for view in found[offset:]],
    }


@router.post("/leaderboards/{leaderboard}/visibility")
def set_visibility(
    leaderboard: str, body: VisibilityIn, platform: PlatformDep, admin: Admin, now: Now
) -> dict[str, Any]:
    """Open a leaderboard to everyone, or close it."""
    changes = BoardChanges(visibility=body.visibility)
    board = board_changes.update_board(platform.db, admin, leaderboard, changes=changes, now=now).board
    return {"status": "ok", "leaderboard": board.name, "visibility": board.visibility.value}


@router.get("/leaderboards/{leaderboard}/rate-limits")
def list_limits(leaderboard: str, db: Db, admin: Admin) -> dict[str, Any]:
    """List a leaderboard's limits that have a form known to the existing service."""
    board = boards.get_board(db, leaderboard, viewer=admin)
    found = [_limit(each) for each in _hourly(db, admin, board.name)]
    return {"status": "ok", "leaderboard": board.name, "rate_limits": found}


@router.put("/leaderboards/{leaderboard}/rate-limits")
def set_limit(leaderboard: str, body: RateLimitIn, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Limit how often each user submits to a leaderboard in an hour."""
    group = GROUPS[body.mode_category]
    old = [each for each in _hourly(db, admin, leaderboard) if each.mode_group == group]
    text = f"{body.max_submissions_per_hour}/hour"
    # Add the new limit first, so that there is always one.
    made = limits.add_limit(db, admin, text=text, board=leaderboard, mode_group=group, now=now)
    for each in old:
        limits.remove_limit(db, admin, each.id, now=now)
    return {"status": "ok", "rate_limit": _limit(made)}


@router.delete("/leaderboards/{leaderboard}/rate-limits/{category}")
def remove_limit(leaderboard: str, category: Category, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Remove a limit."""
    board = boards.get_board(db, leaderboard, viewer=admin)
    found = [each for each in _hourly(db, admin, board.name) if each.mode_group == GROUPS[category]]
    if not found:
        raise NotFound(f"Leaderboard {board.name!r} has no rate limit for {category}.")
    for each in found:
        limits.remove_limit(db, admin, each.id, now=now)
    return {"status": "ok", "leaderboard": board.name, "mode_category": category}


@router.post("/ban/{user_id}")
def ban(user_id: str, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Ban a user. These paths' ``user_id`` is our user's name."""
    user = accounts.ban(db, admin, user_id, reason="banned by an admin", now=now)
    return {"status": "ok", "user_id": user.name, "banned": True}


@router.delete("/ban/{user_id}")
def unban(user_id: str, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Lift a ban."""
    user = accounts.unban(db, admin, user_id, now=now)
    return {"status": "ok", "user_id": user.name, "banned": False}


@router.post("/export-hf")
def export(asked: ExportIn, platform: PlatformDep, admin: Admin, now: Now) -> dict[str, Any]:
    """Write the results of leaderboards to a Parquet file, with a card beside it, in the folder ``exports`` of the
    server's data. Nothing is sent to the Hub: that is done by hand.
    """
    every = {each.id: each for each in boards.list_boards(platform.db, viewer=admin)}
    if missing := [number for number in asked.leaderboard_ids if number not in every]:
        raise NotFound(f"There is no leaderboard {missing[0]}.")
    chosen = [every[number] for number in asked.leaderboard_ids]
    is_open = [each.name for each in chosen if each.phase(now) != "closed"]
    if is_open and not asked.private:
        raise HTTPException(
            400, f"Leaderboard {is_open[0]!r} is still open; only a private export is made of it."
        )
    found = [dataset.dataset_of(platform.db, admin, each.name, now=now) for each in chosen]
    rows = [row for each in found for row in each.rows]
    table = dataset.parquet(rows)
    folder = platform.config.data_dir / "exports"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / asked.filename
    file.write_bytes(table)
    file.with_suffix(".md").write_text(dataset.card(file.stem, found, now), encoding="utf-8")
    return {"status": "ok", "rows": len(rows), "repo_id": "", "filename": str(file)}


def _every(db: Db, admin: Actor, board: str, user: str) -> list[SubmissionInfo]:
    found: list[SubmissionInfo] = []
    while True:
        before = found[-1].id if found else None
        page = service.list_views(db, viewer=admin, board=board, user=user, before_id=before, limit=200)
        found += page
        if len(page) < 200:
            return found


def _hourly(db: Db, admin: Actor, board: str) -> list[Limit]:
    return [
        each
        for each in limits.list_limits(db, admin, board=board)
        if each.quantity == "submissions"
        and each.window_s == HOUR_S
        and each.per_user
        and each.user is None
        and each.device is None
        and each.mode_group is not None
    ]


def _limit(each: Limit) -> dict[str, Any]:
    category = next(name for name, group in GROUPS.items() if group == each.mode_group)
    return {
        "id": each.id,
        "leaderboard_id": each.board_id,
        "leaderboard_name": each.board,
        "mode_category": category,
        "max_submissions_per_hour": int(each.amount),
    }


_DURATION = TypeAdapter(timedelta)


def figures(found: Stats) -> dict[str, Any]:
    """Return statistics, durations in the form of ISO 8601."""
    named: dict[str, Any] = {
        "num_submissions": found.submissions,
        "sub_waiting": found.waiting,
        "sub_running": found.running,
        "num_users": found.users,
    }
    for each in found.devices:
        named |= {
            f"num_run.{each.device}": each.runs,
            f"runs_passed.{each.device}": each.passed,
            f"runs_scored.{each.device}": each.scored,
            # A ranked run is both secret and scored; there are no others.
            f"runs_secret.{each.device}": each.scored,
            f"max_delay.{each.device}": _duration(each.longest_delay_s),
            f"avg_delay.{each.device}": _duration(each.mean_delay_s),
            f"total_runtime.{each.device}": _duration(each.run_s),
        }
    if found.since is None:
        return named | {"num_unique_codes": found.unique_codes}
    return named | {f"total.{each.user}": _duration(each.run_s) for each in found.top_users}


def _duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return str(_DURATION.dump_python(timedelta(seconds=round(seconds, 3)), mode="json"))


MOST_CODES = 10_000


class InvitesIn(Body):
    """Which leaderboards the codes open, and how many."""

    leaderboards: list[str] | None = Field(default=None, max_length=100)
    leaderboard: str | None = None
    count: int = 1


@router.post("/invites")
def make(body: InvitesIn, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Create codes."""
    named = body.leaderboards or ([body.leaderboard] if body.leaderboard else [])
    if not named:
        raise HTTPException(400, "Must provide 'leaderboards' list or 'leaderboard' string")
    if not 1 <= body.count <= MOST_CODES:
        raise HTTPException(400, f"count must be an integer between 1 and {MOST_CODES}")
    names = [boards.get_board(db, name, viewer=admin).name for name in named]
    codes = membership.make_invites(db, admin, names, count=body.count, now=now).codes
    return {"status": "ok", "codes": codes, "leaderboards": names}


@router.get("/leaderboards/{leaderboard}/invites")
def list_all(leaderboard: str, db: Db, admin: Admin) -> dict[str, Any]:
    """List a leaderboard's codes and the users who claimed them."""
    board = boards.get_board(db, leaderboard, viewer=admin)
    found = membership.list_invites(db, admin, board.name)
    return {"status": "ok", "leaderboard": board.name, "invites": [_invite(each) for each in found]}


@router.delete("/invites/{code}")
def revoke(code: str, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Revoke a code."""
    was_claimed = membership.revoke_invite(db, admin, code, now=now).was_claimed
    return {"status": "ok", "code": code, "was_claimed": was_claimed}


def _invite(each: Invite) -> dict[str, Any]:
    return {
        "code": each.code,
        "user_id": each.claimed_by,
        "user_name": each.claimed_by,
        "claimed_at": forms.iso(each.claimed_at),
        "created_at": forms.iso(each.created_at),
    }
