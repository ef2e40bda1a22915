"""Pauses: the whole service, a leaderboard, or a device accepts no submissions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import find_managed
from kernelcup.app.boards.queries import boards
from kernelcup.app.machines import dispatchers
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.rules.queries import pauses
from kernelcup.domain import OPERATOR, Actor, Device, Leaderboard, PauseScope, Role, Scope
from kernelcup.domain.answers import Pause
from kernelcup.engine import Database, Session
from kernelcup.errors import InvalidValue, NotFound, Paused

LONGEST_REASON = 500


What = Annotated[str, Given(help="What is paused: `leaderboard` or `device`.")]
Key = Annotated[str, Given(help="Name of the leaderboard or device.")]
Reason = Annotated[str, Given(help="Reason, shown to everyone who submits.", longest=LONGEST_REASON)]


@operation("GET", "/pauses", "admin pauses", subject="rules")
def list_pauses(db: Database, actor: Actor = OPERATOR) -> list[Pause]:
    """List the pauses and their reasons, without those of leaderboards that you do not see."""
    with db.read() as session:
        found = pauses.every(session)
        names = {str(board.id): board.name for board in access.visible_boards(session, actor)}
    shown = []
    for each in found:
        if each.scope is not PauseScope.LEADERBOARD:
            shown.append(each)
        elif each.key in names:
            shown.append(dataclasses.replace(each, key=names[each.key]))
    return shown


@operation("PUT", "/pauses/service", subject="rules")
def pause_service(db: Database, actor: Actor, *, reason: Reason, now: datetime) -> None:
    """Stop accepting submissions until the pause ends; accepted ones are still judged."""
    pause(db, actor, scope=PauseScope.SERVICE, key="", reason=reason, now=now)


@operation("DELETE", "/pauses/service", subject="rules")
def start_service(db: Database, actor: Actor, *, now: datetime) -> None:
    """Accept submissions again."""
    unpause(db, actor, scope=PauseScope.SERVICE, key="", now=now)


@operation("PUT", "/pauses/{scope}/{key}", subject="rules")
def pause(
    db: Database,
    actor: Actor,
    *,
    scope: What,
    key: Key = "",
    reason: Reason = "",
    now: datetime,
    known_devices: Sequence[Device] | None = None,
) -> None:
    """Pause a `leaderboard` or a `device`. Submissions that already wait are judged.

    Args:
        actor: An admin; for a leaderboard, one of its managers.
        scope: ``service``, ``leaderboard`` or ``device``.
        key: Name of the leaderboard or device; empty for the service.
        reason: Shown to those who try to submit.
        now: When the pause begins.
        known_devices: The configured devices. Any other device has to belong to a leaderboard or be served by a
            dispatcher. None accepts any name.

    Raises:
        NotFound: The leaderboard or device does not exist.
    """
    if len(reason) > LONGEST_REASON:
        raise InvalidValue(f"The reason has {len(reason)} characters; {LONGEST_REASON} are allowed.")
    with db.write(durable=True) as session:
        kind, stored, shown = _target(session, actor, scope, key)
        if kind is PauseScope.DEVICE and known_devices is not None:
            shown = _known_device(session, key, known_devices, now)
        pauses.put(session, Pause(scope=kind, key=stored, reason=reason, since=now, by=actor.name))
        _record(session, actor, kind, shown, "pause", {"reason": reason}, now)


@operation("DELETE", "/pauses/{scope}/{key}", subject="rules")
def unpause(db: Database, actor: Actor, *, scope: What, key: Key = "", now: datetime) -> None:
    """End the pause of a `leaderboard` or a `device`.

    Raises:
        NotFound: It is not paused.
    """
    with db.write(durable=True) as session:
        kind, stored, shown = _target(session, actor, scope, key)
        if not pauses.remove(session, kind, stored):
            raise NotFound(f"{_subject(kind, shown)} is not paused.")
        _record(session, actor, kind, shown, "unpause", {}, now)


@dataclass(frozen=True)
class Stops:
    """All pauses at one moment."""

    known: Mapping[tuple[PauseScope, str], Pause]

    def check_service(self) -> None:
        """Raise ``Paused`` if the service is paused."""
        self._check(PauseScope.SERVICE, "", "The service")

    def check_board(self, board: Leaderboard) -> None:
        """Raise ``Paused`` if the leaderboard is paused."""
        self._check(PauseScope.LEADERBOARD, str(board.id), _subject(PauseScope.LEADERBOARD, board.name))

    def check_devices(self, devices: Sequence[str]) -> None:
        """Raise ``Paused`` if one of the devices is paused."""
        for device in devices:
            self._check(PauseScope.DEVICE, device.lower(), _subject(PauseScope.DEVICE, device))

    def _check(self, scope: PauseScope, key: str, subject: str) -> None:
        found = self.known.get((scope, key))
        if found is not None:
            reason = f": {found.reason}" if found.reason else ""
            raise Paused(f"{subject} takes no submissions now{reason}.")


def look(session: Session) -> Stops:
    """Return all pauses, read in one query."""
    return Stops({(each.scope, each.key): each for each in pauses.every(session)})


def _target(session: Session, actor: Actor, scope: PauseScope | str, key: str) -> tuple[PauseScope, str, str]:
    """Return scope, stored key and shown key of what is paused. Raise unless the actor may pause it."""
    try:
        kind = PauseScope(scope)
    except ValueError as error:
        raise InvalidValue(f"Scope {scope!r}: expected {', '.join(PauseScope)}.") from error
    if kind is PauseScope.LEADERBOARD:
        board = find_managed(session, key, actor)
        return kind, str(board.id), board.name
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if (kind is PauseScope.SERVICE) != (key == ""):
        raise InvalidValue("A device is paused by its name, the service without a name.")
    return kind, key.lower(), key


def _known_device(session: Session, name: str, configured: Sequence[Device], now: datetime) -> str:
    """Return a device's name in its known spelling. Raise ``NotFound`` for an unknown device."""
    known = {each.lower(): each for board in boards.every(session) for each in board.devices}
    known |= {each.lower(): each for info in dispatchers.alive(session, now) for each in info.devices}
    known |= {device.name.lower(): device.name for device in configured}
    if name.lower() not in known:
        raise NotFound(f"There is no device {name!r}; there are {', '.join(sorted(known.values()))}.")
    return known[name.lower()]


def _subject(kind: PauseScope, key: str) -> str:
    names = {PauseScope.SERVICE: "The service", PauseScope.LEADERBOARD: f"Leaderboard {key!r}"}
    return names.get(kind, f"The device {key}")


def _record(
    session: Session,
    actor: Actor,
    kind: PauseScope,
    key: str,
    what: str,
    detail: dict[str, str],
    now: datetime,
) -> None:
    word = "board" if kind is PauseScope.LEADERBOARD else kind.value  # as in ``board.update``
    audit_log.record(session, actor, f"{word}.{what}", f"{word}:{key}" if key else word, detail, now)
