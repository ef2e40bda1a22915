"""Standings."""

from __future__ import annotations

import dataclasses

from kernelcup import scoring
from kernelcup.domain import Leaderboard, Standing
from kernelcup.errors import UnknownDevice
from kernelcup.services.boards import find_board
from kernelcup.storage import runs, users
from kernelcup.storage.database import Database


def standings(db: Database, board: str, device: str, *, limit: int | None = None) -> list[Standing]:
    """Return the ranking of one (leaderboard, device), the fastest first, or the top of it.

    Raises:
        NotFound: There is no such leaderboard.
        UnknownDevice: It does not accept that device.
    """
    with db.read() as session:
        found = find_board(session, board)
        name = board_device(found, device)
        entries = runs.entries(session, board_id=found.id, device=name, limit=limit)
    return scoring.standings(entries)


def personal_best(db: Database, board: str, device: str, user: str) -> Standing | None:
    """Return a user's standing, None for one without a score."""
    with db.read() as session:
        found = find_board(session, board)
        name, person = board_device(found, device), users.find(session, user)
        if person is None:
            return None
        entries = runs.entries(session, board_id=found.id, device=name, user_id=person[0])
        if not entries:
            return None
        faster = runs.count_faster(session, board_id=found.id, device=name, score_s=entries[0].score_s)
    (alone,) = scoring.standings(entries)
    return dataclasses.replace(alone, rank=faster + 1)


def board_device(board: Leaderboard, name: str) -> str:
    """Return a device's name as the leaderboard writes it. Raise ``UnknownDevice``."""
    for device in board.devices:
        if device.lower() == name.lower():
            return device
    allowed = ", ".join(board.devices)
    raise UnknownDevice(f"Leaderboard {board.name!r} has no device {name!r}; it has {allowed}.")
