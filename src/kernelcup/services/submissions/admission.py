"""Checks before a submission is accepted: person, pauses, leaderboard, times, devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from sqlalchemy.orm import Session

from kernelcup.domain import Actor, Language, Leaderboard
from kernelcup.errors import (
    Banned,
    ConflictingBoards,
    DeadlinePassed,
    DeviceNeeded,
    FileTooLarge,
    LeaderboardNeeded,
    NotOpenYet,
    SignInNeeded,
    UnknownDevice,
    WrongFileType,
)
from kernelcup.services import access
from kernelcup.services.boards.boards import find_board
from kernelcup.services.rules.pauses import Stops
from kernelcup.services.submissions.directives import Directives
from kernelcup.storage.boards import late_exceptions, task_versions
from kernelcup.storage.people.users import name_key
from kernelcup.storage.submissions import submissions
from kernelcup_harness.protocol import Mode

ENDINGS = {Language.PYTHON: (".py",), Language.CUDA: (".cu", ".cuh")}


@dataclass(frozen=True, kw_only=True, slots=True)
class NewSubmission:
    """A file to be submitted, and its destination."""

    file_name: str
    size: int
    directives: Directives
    mode: Mode
    board: str | None
    devices: Sequence[str]


def check_author(session: Session, person: Actor, *, lock: bool = False) -> None:
    """Raise unless a person may submit at all.

    Raises:
        SignInNeeded: Their account is gone.
        Banned: They are banned; the text has the reason.
    """
    if person.user_id is None:
        return  # a new name that the operator submits for
    author = submissions.find_author(session, person.user_id, lock=lock)
    if author is None:
        raise SignInNeeded("This account is gone.")
    if author.banned:
        reason = f": {author.ban_reason}" if author.ban_reason else ""
        raise Banned(f"{author.name} may not submit{reason}.")


def admit(
    session: Session, new: NewSubmission, stops: Stops, *, person: Actor, viewer: Actor, now: datetime
) -> tuple[Leaderboard, list[str]]:
    """Return the leaderboard and the devices that a file goes to, or raise the error that refuses it.

    Args:
        session: The transaction.
        new: What is submitted.
        stops: What is paused.
        person: Whose submission it will be.
        viewer: The actor who asks; closed leaderboards exist only for those who may see them.
        now: When it arrived.
    """
    target = _board(session, new, viewer)
    _check_size(target, new.size)
    stops.check_board(target)
    check_file_type(new.file_name, task_versions.language(session, target.task_hash))
    check_open(session, target, person=person, mode=new.mode, now=now)
    chosen = _devices(target, new.devices or new.directives.devices)
    stops.check_devices(chosen)
    return target, chosen


def check_open(session: Session, board: Leaderboard, *, person: Actor, mode: Mode, now: datetime) -> None:
    """Raise ``NotOpenYet`` or ``DeadlinePassed`` if a person cannot submit to a leaderboard now.

    Its managers may practise at any time; a late exception extends the deadline in any mode.
    """
    if mode is not Mode.LEADERBOARD and access.manages_board(person, board):
        return
    if board.opens_at is not None and now < board.opens_at:
        raise NotOpenYet(f"Leaderboard {board.name!r} opens at {board.opens_at:%Y-%m-%d %H:%M:%S} UTC.")
    if board.deadline is None or now <= board.deadline:
        return
    late = None
    if person.user_id is not None:
        late = late_exceptions.until(session, board_id=board.id, user_id=person.user_id)
    if late is None or now > late:
        closed = board.deadline if late is None else max(late, board.deadline)
        raise DeadlinePassed(f"Leaderboard {board.name!r} closed at {closed:%Y-%m-%d %H:%M:%S} UTC.")


def base_name(file_name: str) -> str:
    """Return the last part of a path of any operating system."""
    return file_name.replace("\\", "/").rsplit("/", 1)[-1][-255:]


def _board(session: Session, new: NewSubmission, viewer: Actor) -> Leaderboard:
    name, in_file = new.board, new.directives.leaderboard
    if name and in_file and name_key(name) != name_key(in_file):
        raise ConflictingBoards(f"The file names leaderboard {in_file!r}, but you gave {name!r}.")
    wanted = name or in_file
    if wanted:
        return find_board(session, wanted, viewer)
    some = access.visible_boards(session, viewer, limit=2)
    if len(some) != 1:
        raise LeaderboardNeeded(
            "Which leaderboard? Name it, or start the file with the line `#!POPCORN leaderboard NAME`."
        )
    return some[0]


def _check_size(board: Leaderboard, size: int) -> None:
    if board.max_file_bytes is not None and size > board.max_file_bytes:
        raise FileTooLarge(
            f"The file has {size:,} bytes; leaderboard {board.name!r} allows {board.max_file_bytes:,}."
        )


def check_file_type(file_name: str, language: Language) -> None:
    """Raise ``WrongFileType`` if the suffix of a file name does not fit the task's language."""
    allowed, name = ENDINGS[language], base_name(file_name)
    if PurePosixPath(name).suffix.lower() not in allowed:
        raise WrongFileType(f"{name!r}: expected a file that ends in {' or '.join(allowed)}.")


def _devices(board: Leaderboard, wanted: Sequence[str]) -> list[str]:
    if not wanted and len(board.devices) == 1:
        return list(board.devices)
    allowed = ", ".join(board.devices)
    if not wanted:
        raise DeviceNeeded(
            f"Which device? Leaderboard {board.name!r} has {allowed}.",
            leaderboard=board.name,
            devices=board.devices,
        )
    spelling = {device.lower(): device for device in board.devices}
    for name in wanted:
        if name.lower() not in spelling:
            raise UnknownDevice(f"Leaderboard {board.name!r} has no device {name!r}; it has {allowed}.")
    return list(dict.fromkeys(spelling[name.lower()] for name in wanted))
