"""A ranking with what stands beside it: whether it is frozen, the final, who has no place yet, and its history."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Annotated

from kernelcup.app.boards import boards, visibility
from kernelcup.app.operation import After, Board, Given, Limit, operation
from kernelcup.app.results import finals, freezes, standings
from kernelcup.app.results.queries import standings as ranking
from kernelcup.domain import OPERATOR, Actor, Record, Ruling, Standing, Table
from kernelcup.engine import Database

OnRanking = Annotated[str, Given(longest=100, help="A device of the leaderboard.")]


@operation("GET", "/leaderboards/{name}/standings/{device}", subject="standings")
def show(
    db: Database,
    viewer: Actor,
    board: Board,
    device: OnRanking,
    *,
    host_class: Annotated[
        str | None, Given(key="class", longest=1000, help="Only the ranking of one of `classes`.")
    ] = None,
    after: After = None,
    limit: Limit = 100,
    now: datetime,
) -> Table:
    """Show the ranking, fastest first. Indistinguishable results share a rank."""
    offset = after or 0
    found = standings.standings(
        db, board, device, host_class=host_class, viewer=viewer, limit=limit + 1, offset=offset
    )
    return Table(
        items=found[:limit],
        next=offset + limit if len(found) > limit else None,
        frozen_since=freezes.frozen_since(db, board, viewer=viewer, now=now),
        classes=standings.classes(db, board, device, viewer=viewer),
        final=None if offset else finals.show(db, board, device, viewer=viewer, now=now),
        waiting=0 if offset else standings.count_waiting(db, board, device, viewer=viewer),
        unranked=[] if offset else standings.standings_apart(db, board, device, Ruling.LEVEL, viewer=viewer),
        practice=[]
        if offset
        else standings.standings_apart(db, board, device, Ruling.PRACTICE, viewer=viewer),
    )


@operation("GET", "/leaderboards/{name}/standings/{device}/me", subject="standings", tool="place")
def show_mine(
    db: Database, viewer: Actor, board: Board, device: OnRanking, *, user: str | None = None
) -> Standing | None:
    """Show your own place; null without one. In a frozen ranking, the place at the time of the freeze.

    Args:
        user: Whose place it is instead; a server does not take it.
    """
    return standings.personal_best(db, board, device, viewer.name if user is None else user, viewer=viewer)


@operation("GET", "/leaderboards/{name}/standings/{device}/history", subject="standings", is_paged=True)
def history(
    db: Database,
    board: Board,
    device: OnRanking,
    *,
    viewer: Actor = OPERATOR,
    user: Annotated[str | None, Given(longest=100, help="Only this user's results.")] = None,
    before_id: After = None,
    limit: Limit = 100,
) -> list[Record]:
    """Show how users' bests improved, newest first.

    Unless the viewer manages the leaderboard, other users' improvements are limited to those before the freeze,
    under the names of the standings.
    """
    with db.read() as session:
        found = boards.find_board(session, board, viewer)
        name = standings.board_device(found, device)
        user_id = None if user is None else visibility.find_shown(session, found, user, viewer)
        if user is not None and user_id is None:
            return []
        records = ranking.history(
            session,
            board_id=found.id,
            device=name,
            user_id=user_id,
            before_id=before_id,
            limit=limit,
            until=visibility.hidden_since(found, viewer),
            always=viewer.user_id,
        )
        names = visibility.shown_names(session, found, {each.user_id: each.user for each in records}, viewer)
    masked = visibility.is_masked(found, viewer)
    return [
        dataclasses.replace(
            each, **dataclasses.asdict(names[each.user_id]), user_id=0 if masked else each.user_id
        )
        for each in records
    ]
