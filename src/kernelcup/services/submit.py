"""Take a submission in: every check, in one order, then one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath

from sqlalchemy.orm import Session

from kernelcup.domain import Language, Leaderboard, Submission
from kernelcup.errors import (
    ConflictingBoards,
    DeadlinePassed,
    DeviceNeeded,
    EmptyFile,
    FileTooLarge,
    LeaderboardNeeded,
    NotOpenYet,
    NotText,
    UnknownDevice,
    WrongFileType,
)
from kernelcup.screen import Screening, screen
from kernelcup.screen.opinion import SecondOpinion, with_opinion
from kernelcup.services.boards import find_board
from kernelcup.services.directives import Directives, parse_directives
from kernelcup.services.users import check_user_name
from kernelcup.storage import boards, screenings, submissions, tasks, users
from kernelcup.storage.database import Database
from kernelcup_harness.protocol import Mode

LARGEST_FILE_BYTES = 1_000_000

ENDINGS = {Language.PYTHON: (".py",), Language.CUDA: (".cu", ".cuh")}


def submit(
    db: Database,
    *,
    user: str,
    file_name: str,
    content: bytes,
    mode: Mode,
    now: datetime,
    board: str | None = None,
    devices: Sequence[str] = (),
    second_opinion: SecondOpinion | None = None,
) -> Submission:
    """Accept a file: once this returns, it will be judged.

    Checks happen in this order: user name, size and encoding, directives, leaderboard, file type,
    opening and deadline, devices. Each refusal is a ``UserError`` with a code of its own. The static
    screen refuses nothing: what it finds is stored with the submission, for reviewers.

    Args:
        board: Leaderboard; else the file's directive, else the only one there is.
        devices: Devices; else the file's directive, else the leaderboard's only one.
        now: When the file arrived.
        second_opinion: Rules beside ours that the static screen asks.
    """
    name = check_user_name(user)
    code = read_code(content)
    directives = parse_directives(code)
    with db.read() as session:
        _admit(session, file_name, board, directives, devices, now=now)
    screening = screen_file(file_name, code, second_opinion)  # takes too long for a transaction
    with db.write(durable=True) as session:
        # Once more: the leaderboard may have been deleted or made anew while the file was looked at.
        target, chosen = _admit(session, file_name, board, directives, devices, now=now)
        submission_id = submissions.insert(
            session,
            board=target,
            user_id=users.get_or_create(session, name, now=now),
            code=code,
            file_name=_base_name(file_name),
            mode=mode,
            devices=chosen,
            now=now,
        )
        screenings.insert(session, submission_id, screening)
        submission = submissions.find(session, submission_id)
    assert submission is not None
    return submission


def read_code(content: bytes) -> str:
    """Return a submission's text. Raise ``EmptyFile``, ``FileTooLarge`` or ``NotText``."""
    if len(content) > LARGEST_FILE_BYTES:
        raise FileTooLarge(f"The file has {len(content):,} bytes; {LARGEST_FILE_BYTES:,} are allowed.")
    if not content.strip():
        raise EmptyFile("The file is empty.")
    try:
        code = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotText(f"The file is not UTF-8 text: byte {error.start} fits no character.") from error
    if "\0" in code:
        raise NotText("The file is not text: it has a NUL byte.")
    return code


def screen_file(file_name: str, code: str, second_opinion: SecondOpinion | None = None) -> Screening:
    """Return what the static screen says about a file. It never refuses one."""
    is_native = PurePosixPath(_base_name(file_name)).suffix.lower() in ENDINGS[Language.CUDA]
    return with_opinion(screen(code, is_native=is_native), code, second_opinion)


def check_open(board: Leaderboard, *, now: datetime) -> None:
    """Raise ``NotOpenYet`` or ``DeadlinePassed`` if the leaderboard takes nothing at that moment."""
    if board.opens_at is not None and now < board.opens_at:
        raise NotOpenYet(f"Leaderboard {board.name!r} opens at {board.opens_at:%Y-%m-%d %H:%M:%S} UTC.")
    if board.deadline is not None and now > board.deadline:
        raise DeadlinePassed(f"Leaderboard {board.name!r} closed at {board.deadline:%Y-%m-%d %H:%M:%S} UTC.")


def _admit(
    session: Session,
    file_name: str,
    board: str | None,
    directives: Directives,
    devices: Sequence[str],
    *,
    now: datetime,
) -> tuple[Leaderboard, list[str]]:
    """Return where a file goes: the leaderboard and its devices. Raise what refuses it."""
    target = _board(session, board, directives)
    _check_file_type(file_name, tasks.language(session, target.task_hash))
    check_open(target, now=now)
    return target, _devices(target, devices or directives.devices)


def _board(session: Session, name: str | None, directives: Directives) -> Leaderboard:
    in_file = directives.leaderboard
    if name and in_file and name.lower() != in_file.lower():
        raise ConflictingBoards(f"The file says leaderboard {in_file!r}, you say {name!r}.")
    wanted = name or in_file
    if wanted:
        return find_board(session, wanted)
    some = boards.every(session, limit=2)
    if len(some) != 1:
        raise LeaderboardNeeded(
            "Which leaderboard? Name it, or start the file with the line `#!POPCORN leaderboard NAME`."
        )
    return some[0]


def _check_file_type(file_name: str, language: Language) -> None:
    allowed = ENDINGS[language]
    if PurePosixPath(_base_name(file_name)).suffix.lower() not in allowed:
        raise WrongFileType(
            f"{_base_name(file_name)!r}: expected a file that ends in {' or '.join(allowed)}."
        )


def _devices(board: Leaderboard, wanted: Sequence[str]) -> list[str]:
    if not wanted and len(board.devices) == 1:
        return list(board.devices)
    allowed = ", ".join(board.devices)
    if not wanted:
        raise DeviceNeeded(f"Which device? Leaderboard {board.name!r} has {allowed}.")
    spelling = {device.lower(): device for device in board.devices}
    for name in wanted:
        if name.lower() not in spelling:
            raise UnknownDevice(f"Leaderboard {board.name!r} has no device {name!r}; it has {allowed}.")
    return list(dict.fromkeys(spelling[name.lower()] for name in wanted))


def _base_name(file_name: str) -> str:
    return file_name.replace("\\", "/").rsplit("/", 1)[-1][-255:]
