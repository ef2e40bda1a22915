"""The progress of a leaderboard's members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelcup.app.boards import boards
from kernelcup.app.boards.membership import Member, members
from kernelcup.app.results import standings
from kernelcup.domain import Actor, Standing
from kernelcup.engine import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberProgress:
    """A member with their standings."""

    member: Member
    bests: Mapping[str, Standing]
    """By device, of several classes of machines the best rank; devices without a ranked result are left out."""


def progress_of(db: Database, actor: Actor, board: str) -> list[MemberProgress]:
    """Return the members of a leaderboard with their standings, by name.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not see them.
    """
    found = members(db, actor, board)
    devices = boards.get_board(db, board, viewer=actor).devices
    bests: dict[str, dict[str, Standing]] = {each.user: {} for each in found}
    for device in devices:
        for place in standings.standings(db, board, device, viewer=actor):
            best = bests.get(place.user, {}).get(device)
            if place.user in bests and (best is None or place.rank < best.rank):
                bests[place.user][device] = place
    return [MemberProgress(member=each, bests=bests[each.user]) for each in found]
