"""Checks before a submission is accepted: person, pauses, leaderboard, times, devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from kernelcup.app import access
from kernelcup.app.boards.boards import find_board
from kernelcup.app.boards.queries import late_exceptions, task_versions
from kernelcup.app.events.queries import events, teams
from kernelcup.app.people.queries import users
from kernelcup.app.rules.pauses import Stops
from kernelcup.app.submissions.directives import Directives
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import Actor, AfterDeadline, Device, Language, Leaderboard
from kernelcup.engine import Session
from kernelcup.errors import (
    Banned,
    ConflictingBoards,
    DeadlinePassed,
    DeviceNeeded,
    FileTooLarge,
    GpuNeeded,
    LeaderboardNeeded,
    NotOpenYet,
    RegistrationNeeded,
    SignInNeeded,
    UnknownDevice,
    WrongFileType,
)
from kernelcup.tasks.job_spec import placed
from kernelcup.tasks.sources.submitted import base_name
from kernelcup_harness.protocol import Backend, Mode, SourceTree


@dataclass(frozen=True, kw_only=True, slots=True)
class NewSubmission:
    """Files to be submitted, and their destination."""

    tree: SourceTree
    directives: Directives
    mode: Mode
    board: str | None
    devices: Sequence[str]
    known: Sequence[Device] = ()
    """The configured devices; what another machine has is not known."""


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
) -> tuple[Leaderboard, list[str], bool]:
    """Return the leaderboard and the devices that a file goes to, and whether it is practice, or raise the error that
    refuses it.

    Args:
        new: What is submitted.
        stops: What is paused.
        person: Whose submission it will be.
        viewer: The actor who asks; members-only leaderboards exist only for those who may see them.
        now: When it arrived.
    """
    target = _board(session, new, viewer)
    _check_size(target, sum(len(text.encode()) for text in new.tree.files.values()))
    stops.check_board(target)
    check_file_type(new.tree.entry, task_versions.accepted(session, target.task_hash, target.harness))
    if len(new.tree.files) > 1:
        placed(new.tree, task_versions.load(session, target.task_hash), target.harness)
    practice = check_open(session, target, person=person, mode=new.mode, now=now)
    chosen = _devices(target, new.devices or new.directives.devices)
    stops.check_devices(chosen)
    check_gpu(new.tree.entry, chosen, new.known)
    return target, chosen, practice


def check_gpu(entry: str, names: Sequence[str], known: Sequence[Device]) -> None:
    """Raise ``GpuNeeded`` if a submission in CUDA C++ would go to a device without a GPU, which only compiles it."""
    without = without_gpu(names, known)
    if without and is_cuda(entry):
        raise GpuNeeded(
            f"{entry!r} is CUDA C++, and {', '.join(sorted(without))} here has no GPU to run it. "
            "`kernelcup run` compiles it without one."
        )


def without_gpu(names: Sequence[str], known: Sequence[Device]) -> set[str]:
    """Return those of some devices that are known to have no GPU."""
    return {device.name for device in known if device.backend is not Backend.CUDA} & set(names)


def is_cuda(name: str) -> bool:
    """Return whether a file, or the ending of its name, is CUDA C++."""
    return name.lower().endswith((".cu", ".cuh"))


def check_open(session: Session, board: Leaderboard, *, person: Actor, mode: Mode, now: datetime) -> bool:
    """Return whether a submission would be practice, ranked apart from the final standings.

    Its managers may test at any time; a late exception extends the deadline in any mode. What comes after the deadline
    counts for nothing, so it needs no registration. Raise ``NotOpenYet``, ``DeadlinePassed`` or
    ``RegistrationNeeded`` if a person cannot submit to the leaderboard now.
    """
    is_ranked = mode is Mode.LEADERBOARD
    if not is_ranked and access.manages_board(person, board):
        return False
    phase = board.phase(now)
    if phase == "upcoming":
        raise NotOpenYet(f"Leaderboard {board.name!r} opens at {board.opens_at:%Y-%m-%d %H:%M:%S} UTC.")
    late = None
    if phase == "closed" and person.user_id is not None:
        late = late_exceptions.until(session, board_id=board.id, user_id=person.user_id)
    if phase == "open" or (late is not None and now <= late):
        check_registered(session, board, person)
        return False
    takes = board.after_deadline
    if takes is AfterDeadline.PRACTICE or (takes is AfterDeadline.UNRANKED and not is_ranked):
        return is_ranked
    closed = max(filter(None, (board.deadline, late)))
    told = "" if takes is AfterDeadline.CLOSED else " It still takes tests, benchmarks and profiles."
    raise DeadlinePassed(f"Leaderboard {board.name!r} closed at {closed:%Y-%m-%d %H:%M:%S} UTC.{told}")


def check_registered(session: Session, board: Leaderboard, person: Actor) -> None:
    """Raise ``RegistrationNeeded`` if the leaderboard's event asks for a registration that the person has not."""
    event = events.of_board(session, board.id) if board.event else None
    if event is None or not event.registration:
        return
    if person.user_id is None or not teams.is_registered(session, event.id, person.user_id):
        raise RegistrationNeeded(
            f"Leaderboard {board.name!r} is part of {event.name!r}: register first, on the page /e/{event.name} "
            f"or by `kernelcup event register {event.name} --accept`."
        )


def _board(session: Session, new: NewSubmission, viewer: Actor) -> Leaderboard:
    name, in_file = new.board, new.directives.leaderboard
    if name and in_file and users.name_key(name) != users.name_key(in_file):
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
            f"The submission has {size:,} bytes; leaderboard {board.name!r} allows {board.max_file_bytes:,}."
        )


def check_file_type(file_name: str, accepted: Sequence[Language]) -> None:
    """Raise ``WrongFileType`` if a file is in none of the languages that a leaderboard takes."""
    allowed, name = [ending for each in accepted for ending in each.endings], base_name(file_name)
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
