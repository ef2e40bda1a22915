"""Rate limits, in submissions, in GPU-seconds or in cost per time window.

They are checked in the transaction that stores a submission. A leaderboard's limit of each user is one of each team
where its event has teams. Windows slide: each use counts until exactly
one window later.

Budgets of launchers are not checked for a submission: once their machines have cost so much in a time, they begin
no more jobs until it is over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import find_board, find_managed
from kernelcup.app.events.queries import teams
from kernelcup.app.machines.queries import machines
from kernelcup.app.operation import BOARD, Given, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.app.results.queries import run_costs
from kernelcup.app.rules.queries import gpu_uses, limits
from kernelcup.domain import Actor, Leaderboard, ModeGroup, Role, Scope
from kernelcup.domain.answers import Limit, Quantity
from kernelcup.engine import Database, Session
from kernelcup.errors import InvalidValue, NotFound, RateLimited
from kernelcup.launchers import installed
from kernelcup_harness.protocol import Mode

ALLOWED = "expected a form like `10/hour`, `3 per 10 minutes`, `600 gpu-seconds/day` or `20 cost/month`"

LARGEST_AMOUNT = 1_000_000
LONGEST_WINDOW_S = 366 * 24 * 3600

_LIMIT = re.compile(
    r"(?P<amount>\d{1,7}(?:\.\d{1,2})?)\s*(?P<quantity>submissions?|gpu[-_ ]seconds?|cost)?\s*(?:/|\bper\b)\s*"
    r"(?P<window>(?:[1-9]\d{0,3}\s*)?(?:second|minute|hour|day|month|year)s?)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The remaining amount of a limit."""

    limit: str
    """The limit in words."""
    used: float
    remaining: float
    resets_at: datetime | None
    """When the oldest use stops counting; None while there is none."""


@operation("POST", "/limits", "admin limit add", subject="rules", status=201)
def add_limit(
    db: Database,
    actor: Actor,
    *,
    text: Annotated[
        str,
        Given(
            metavar="LIMIT",
            help='"10/hour", "3 per 10 minutes", "600 gpu-seconds/day", "20 cost/month".',
            longest=100,
        ),
    ],
    board: Annotated[
        str | None,
        Given(options=("--board", "-b"), key=BOARD, help="Count only submissions to this leaderboard."),
    ] = None,
    user: Annotated[str | None, Given(options=("--user", "-u"), help="Limit only this user.")] = None,
    device: Annotated[
        str | None, Given(options=("--device", "-d"), help="Count only submissions to this device.")
    ] = None,
    launcher: Annotated[
        str | None,
        Given(
            options=("--launcher",),
            help="A budget of what the machines of this launcher cost; its jobs wait.",
        ),
    ] = None,
    mode_group: Annotated[
        str | None,
        Given(options=("--modes",), help="Count only these modes: practice, profile or ranked.", longest=20),
    ] = None,
    per_user: Annotated[
        bool,
        Given(
            options=("--together",),
            is_negated=True,
            help="All users share the amount; default: each user has it.",
        ),
    ] = True,
    now: datetime,
) -> Limit:
    """Limit how much may be submitted. A submission must keep within all limits.

    That of a launcher holds its jobs back. Managers may limit their leaderboards; other limits are for admins.

    Raises:
        InvalidValue: The text or the mode group is malformed, or a launcher's limit has another scope or no cost.
        NotFound: The leaderboard, device, launcher or user does not exist.
    """
    quantity, amount, window_s = parse_limit(text)
    if launcher is not None and (quantity is not Quantity.COST or board or user or device or mode_group):
        raise InvalidValue("A launcher's limit is one of cost, such as `20 cost/month`, and of nothing else.")
    with db.write() as session:
        target = None
        if board is None:
            access.require(actor, Scope.ADMIN, role=Role.ADMIN)
        else:
            target = find_managed(session, board, actor)
        if launcher is not None and launcher not in (known := _launchers(session)):
            raise NotFound(f"There is no launcher {launcher!r}, only {', '.join(known)}.")
        person = None if user is None else users.find_name(session, user)
        if user is not None and person is None:
            raise NotFound(f"There is no user {user!r}.")
        limit_id = limits.insert(
            session,
            Limit(
                id=0,
                board_id=None if target is None else target.id,
                board=None if target is None else target.name,
                user_id=None if person is None else person[0],
                user=None if person is None else person[1],
                device=None if device is None else _device(target, device),
                launcher=launcher,
                mode_group=_mode_group(mode_group),
                per_user=launcher is None and (per_user or person is not None),
                quantity=quantity,
                amount=amount,
                window_s=window_s,
            ),
        )
        made = limits.find(session, limit_id)
        assert made is not None
        audit_log.record(session, actor, "limit.add", _target(made), _detail(made), now)
    return made


def _launchers(session: Session) -> list[str]:
    """Return the launchers that are installed, or that machines have."""
    return sorted({*installed.names(), *(each.launcher for each in machines.every(session))})


@operation("GET", "/limits", "admin limit list", subject="rules")
def list_limits(
    db: Database,
    actor: Actor,
    board: Annotated[
        str | None,
        Given(
            options=("--board", "-b"),
            key=BOARD,
            help="Only limits of this leaderboard; admins may see all limits.",
        ),
    ] = None,
) -> list[Limit]:
    """List limits: a leaderboard's for everyone who sees it, all for admins.

    Only managers see the limits of other users.
    """
    with db.read() as session:
        if board is None:
            access.require(actor, Scope.ADMIN, role=Role.ADMIN)
            return limits.every(session)
        target = find_board(session, board, actor)
        found = limits.every(session, board_id=target.id)
        if access.manages_board(actor, target):
            return found
        return [each for each in found if each.user_id is None or each.user_id == actor.user_id]


@operation("DELETE", "/limits/{limit_id}", "admin limit remove", subject="rules")
def remove_limit(
    db: Database,
    actor: Actor,
    limit_id: Annotated[int, Given(metavar="ID", least=1, help="Number of the limit.")],
    *,
    now: datetime,
) -> None:
    """Remove a limit.

    Raises:
        NotFound: The actor may change no limit with this number.
    """
    with db.write() as session:
        found = limits.find(session, limit_id)
        if found is None or (found.board is None and not access.has_role(actor, Role.ADMIN)):
            raise NotFound(f"There is no limit {limit_id}.")
        if found.board is None:
            access.require(actor, Scope.ADMIN, role=Role.ADMIN)
        elif not access.manages_board(actor, find_board(session, found.board)):
            raise NotFound(f"There is no limit {limit_id}.")
        else:
            find_managed(session, found.board, actor)
        limits.remove(session, limit_id)
        audit_log.record(session, actor, "limit.remove", _target(found), _detail(found), now)


@operation("GET", "/budget", subject="rules", personal=True, tool="budget")
def budget(
    db: Database,
    actor: Actor,
    *,
    board: Annotated[str, Given(key=BOARD, help="Name of the leaderboard.")],
    device: Annotated[str, Given(help="One of its devices.", longest=100)],
    now: datetime,
) -> list[Budget]:
    """Show how much you may still submit, for each limit that applies."""
    access.require(actor, Scope.READ)
    with db.read() as session:
        target = find_board(session, board, actor)
        applying = limits.applying(
            session, board_id=target.id, user_id=actor.user_id, devices=[_device(target, device)], group=None
        )
        return [_budget(session, limit, actor.user_id, now=now) for limit in applying]


def check_limits(
    session: Session,
    board: Leaderboard,
    devices: Sequence[str],
    *,
    person: Actor,
    mode: Mode,
    now: datetime,
    lock: bool,
) -> None:
    """Raise ``RateLimited`` if one more submission would exceed a limit.

    Args:
        session: The transaction. With ``lock``, the user must be locked already.
        board: The submission's leaderboard.
        devices: Its devices.
        person: Its author.
        mode: Its mode.
        now: When it arrived.
        lock: Make other submissions under the same limits wait until the transaction ends.
    """
    group = next(each for each in ModeGroup if mode in each.modes)
    found = limits.applying(session, board_id=board.id, user_id=person.user_id, devices=devices, group=group)
    if lock:
        for limit in found:
            if not limit.per_user or len(_users(session, limit, person.user_id)) > 1:
                limits.lock(session, limit)
    waits = [(wait_s(session, each, person.user_id, now=now), each) for each in found]
    if not waits:
        return
    longest_s, strictest = max(waits, key=lambda pair: pair[0])
    if longest_s > 0:
        retry_s = max(1, math.ceil(longest_s))
        raise RateLimited(f"The limit is {strictest.text}; try again in {retry_s} s.", retry_after_s=retry_s)


def wait_s(session: Session, limit: Limit, user_id: int | None, *, now: datetime) -> float:
    """Return the number of seconds until a limit allows one more submission, 0 for at once."""
    window, counted = timedelta(seconds=limit.window_s), _users(session, limit, user_id)
    if limit.quantity is Quantity.SUBMISSIONS:
        oldest = limits.submission_before(
            session, limit, user_ids=counted, since=now - window, newer=int(limit.amount) - 1
        )
        return 0.0 if oldest is None else (oldest + window - now).total_seconds()
    used = limits.gpu_uses(session, limit, user_ids=counted, since=now - window, now=now)
    left = sum(use.amount for use in used)
    if left < limit.amount:
        return 0.0
    for use in sorted(used, key=lambda each: each.at):
        left -= use.amount
        if left < limit.amount:
            return (use.at + window - now).total_seconds()
    return window.total_seconds()


def parse_limit(text: str) -> tuple[Quantity, float, int]:
    """Return the quantity, the amount and the window in seconds of a limit. Raise ``InvalidValue``."""
    from limits import parse  # here: its import takes long

    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(f"Limit {text!r}: {ALLOWED}.")
    amount, named = float(match["amount"]), (match["quantity"] or "").lower()
    quantity = Quantity.GPU_SECONDS if named.startswith("gpu") else Quantity.SUBMISSIONS
    quantity = Quantity.COST if named == "cost" else quantity
    if quantity is not Quantity.COST and not amount.is_integer():
        raise InvalidValue(f"Limit {text!r}: {ALLOWED}.")
    window_s = parse(f"1 per {match['window']}").get_expiry()
    least = 0.01 if quantity is Quantity.COST else 1
    if not least <= amount <= LARGEST_AMOUNT or window_s > LONGEST_WINDOW_S:
        raise InvalidValue(f"Limit {text!r}: expected {least:g} to {LARGEST_AMOUNT:,} in at most a year.")
    return quantity, amount, window_s


def _budget(session: Session, limit: Limit, user_id: int | None, *, now: datetime) -> Budget:
    since, counted = now - timedelta(seconds=limit.window_s), _users(session, limit, user_id)
    if limit.quantity is Quantity.SUBMISSIONS:
        most = int(limit.amount)
        times = limits.submissions_since(session, limit, user_ids=counted, since=since, most=most)
        used = [gpu_uses.Use(at=at, amount=1.0) for at in times]
    else:
        used = limits.gpu_uses(session, limit, user_ids=counted, since=since, now=now)
    total = sum(use.amount for use in used)
    oldest = min((use.at for use in used), default=None)
    return Budget(
        limit=limit.text,
        used=total,
        remaining=max(0.0, limit.amount - total),
        resets_at=None if oldest is None else oldest + timedelta(seconds=limit.window_s),
    )


def _users(session: Session, limit: Limit, user_id: int | None) -> set[int]:
    """Return whose uses count against a limit of each user: those of a whole team under a leaderboard's."""
    if user_id is None:
        return set()
    if limit.board_id is None or limit.user_id is not None or not limit.per_user:
        return {user_id}
    return teams.mates(session, limit.board_id, user_id)


def _device(board: Leaderboard | None, name: str) -> str:
    if board is None:
        return name
    for device in board.devices:
        if device.lower() == name.lower():
            return device
    raise NotFound(f"Leaderboard {board.name!r} has no device {name!r}; it has {', '.join(board.devices)}.")


def _mode_group(group: str | None) -> ModeGroup | None:
    try:
        return None if group is None else ModeGroup(group)
    except ValueError as error:
        raise InvalidValue(f"Mode group {group!r}: expected {' or '.join(ModeGroup)}.") from error


def _target(limit: Limit) -> str:
    if limit.board is not None:
        return f"board:{limit.board}"
    return f"user:{limit.user}" if limit.user is not None else "service"


def _detail(limit: Limit) -> dict[str, object]:
    return {"limit": limit.id, "text": limit.text}


def used_up(session: Session, now: datetime) -> dict[str, datetime]:
    """Return the launchers whose budget is used up, and until when."""
    found: dict[str, datetime] = {}
    for each in limits.of_launchers(session):
        assert each.launcher is not None
        window = timedelta(seconds=each.window_s)
        if run_costs.of_launcher(session, each.launcher, since=now - window) < each.amount:
            continue
        left, until = 0.0, now
        for at, cost in run_costs.newest_of_launcher(session, each.launcher, since=now - window):
            left += cost
            if left >= each.amount:
                until = at + window
                break
        found[each.launcher] = max(until, found.get(each.launcher, until))
    return found
