"""The table of points of an event, from the standings that the viewer sees.

It reads nothing but those standings, so a freeze, pseudonyms and what a review keeps aside hold for it as they do for
them. Each (leaderboard, device) is a column. Who shares a rank gets the same points there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kernelcup.app.boards import visibility
from kernelcup.app.events.events import EventName, list_boards_of, show_event
from kernelcup.app.events.settings import points_of_places
from kernelcup.app.operation import operation
from kernelcup.app.results import facts, finals, freezes, standings
from kernelcup.domain import Actor, FinalPlace, Leaderboard, Named, RankedBy, Standing
from kernelcup.domain.events import Event, EventSettings, PointsBy, Ties
from kernelcup.engine import Database

DECIMALS = 3
"""Points are rounded to thousandths, so that a sum of the same points is the same sum."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A ranking that gives points."""

    leaderboard: str
    device: str
    weight: float
    frozen_since: datetime | None
    """None where the ranking is live."""
    official: bool
    """Whether the ranks of the best are those of a final."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A competitor's points in one ranking."""

    rank: int
    """In the standings, or in the official order of a final."""
    submission: int
    score_s: float | None
    """None where times mean nothing."""
    ratio: float | None
    """By which points are given, except for places; None where it is not known, which gives no points."""
    points: float
    """With the leaderboard's weight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PointsRow(Named):
    """A competitor: a user, or a team under its captain's name."""

    place: int
    """Shared by equal sums that the rule for ties does not separate."""
    user: str
    shown_name: str = ""
    pseudonym: bool
    """Whether ``user`` is a pseudonym, which may be another user's name."""
    total: float
    cells: list[Cell | None]
    """One for each column; None without a result there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PointsTable:
    """An event's table of points, with all that is needed to compute it again from the standings."""

    event: str
    points_by: PointsBy
    place_points: list[float]
    full_points: float
    ties: Ties
    columns: list[Column]
    rows: list[PointsRow]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    standing: Standing
    rank: int
    ratio: float | None


@dataclass(slots=True)
class _Sum:
    shown: Standing
    pseudonym: bool
    cells: dict[int, Cell] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return round(math.fsum(each.points for each in self.cells.values()), DECIMALS)


@operation("GET", "/events/{event}/points", "event points", subject="events")
def points(db: Database, viewer: Actor, event: EventName, *, now: datetime) -> PointsTable:
    """Show an event's table of points: the points of each leaderboard times its weight, summed.

    It is as frozen as the standings that you see.
    """
    found = show_event(db, viewer, event)
    boards = list_boards_of(db, found, viewer)
    return table_of(db, found, boards, viewer=viewer, now=now)


def table_of(
    db: Database, event: Event, boards: Sequence[Leaderboard], *, viewer: Actor, now: datetime
) -> PointsTable:
    """Return the table of points over some leaderboards of an event, as the viewer sees them."""
    pairs = [(board, device) for board in boards for device in board.devices]
    columns: list[Column] = []
    sums: dict[tuple[bool, str], _Sum] = {}
    for at, (board, device) in enumerate(pairs):
        final = finals.show(db, board.name, device, viewer=viewer, now=now)
        official = final.places if final is not None else []
        columns.append(
            Column(
                leaderboard=board.name,
                device=device,
                weight=board.event_weight,
                frozen_since=freezes.frozen_since(db, board.name, viewer=viewer, now=now),
                official=bool(official),
            )
        )
        is_masked = visibility.is_masked(board, viewer)
        for ranking in standings.rankings(db, board.name, device, viewer=viewer):
            entries = _entries(db, event, board, device, ranking, official, viewer=viewer)
            for entry, cell in zip(entries, _cells(entries, event, board.event_weight), strict=True):
                who = (is_masked and entry.standing.user != viewer.name, entry.standing.user)
                mine = sums.setdefault(who, _Sum(entry.standing, who[0]))
                # Of several classes of machines, the one with the most points.
                if at not in mine.cells or mine.cells[at].points < cell.points:
                    mine.cells[at] = cell
    return PointsTable(
        event=event.name,
        points_by=event.points_by,
        place_points=list(points_of_places(event.place_points)),
        full_points=event.full_points,
        ties=event.ties,
        columns=columns,
        rows=_rows(list(sums.values()), event, len(columns)),
    )


def values_of_ranks(entries: Sequence[tuple[int, float | None]], rule: EventSettings) -> Mapping[int, float]:
    """Return the points of each rank of a ranking, before the leaderboard's weight.

    A rank has the points of the best ratio at that rank or below it: equals get equal points, and a lower rank, after
    a duel for example, never more.

    Args:
        entries: Rank and ratio of each entry.
        rule: The event's formula.
    """
    places = points_of_places(rule.place_points)
    values: dict[int, float] = {}
    best = 0.0
    for rank, ratio in sorted(entries, key=lambda entry: -entry[0]):
        if rule.points_by is PointsBy.PLACE:
            value = places[rank - 1] if rank <= len(places) else 0.0
        else:
            value = rule.full_points * (ratio or 0.0)
        values[rank] = best = max(best, value)
    return values


def _entries(
    db: Database,
    event: Event,
    board: Leaderboard,
    device: str,
    ranking: Sequence[Standing],
    official: Sequence[FinalPlace],
    *,
    viewer: Actor,
) -> list[_Entry]:
    by_final = {each.user: each.place for each in official}
    beside: Mapping[int, facts.Beside] = {}
    if event.points_by in (PointsBy.FLOOR, PointsBy.BASELINE):
        beside = facts.beside_of(db, board.name, device, ranking, viewer=viewer)
    best = min((each.score_s for each in ranking), default=0.0)
    return [
        _Entry(
            standing=each,
            rank=by_final.get(each.user, max(each.rank, len(by_final) + 1) if by_final else each.rank),
            ratio=_ratio(event.points_by, each, best, beside.get(each.submission_id)),
        )
        for each in ranking
    ]


def _ratio(by: PointsBy, place: Standing, best: float, beside: facts.Beside | None) -> float | None:
    if by is PointsBy.PLACE:
        return None
    if place.ranked_by is RankedBy.CORRECTNESS:  # its time means nothing: all are as good as the leader
        return 1.0 if by is PointsBy.LEADER else None
    if by is PointsBy.LEADER:
        return best / place.score_s
    if beside is None:
        return None
    return beside.of_floor if by is PointsBy.FLOOR else beside.of_baseline


def _cells(entries: Sequence[_Entry], event: Event, weight: float) -> list[Cell]:
    values = values_of_ranks([(each.rank, each.ratio) for each in entries], event)
    return [
        Cell(
            rank=each.rank,
            submission=each.standing.submission_id,
            score_s=each.standing.time_s,
            ratio=each.ratio,
            points=round(weight * values[each.rank], DECIMALS),
        )
        for each in entries
    ]


def _rows(sums: list[_Sum], event: Event, columns: int) -> list[PointsRow]:
    """Return the rows in their order, with their places."""

    def key(row: _Sum) -> tuple[float, ...]:
        if event.ties is Ties.SHARED:
            return (-row.total,)
        # The better sorted ranks first: a first place counts before any number of second ones.
        return (-row.total, *sorted(cell.rank for cell in row.cells.values()), math.inf)

    ordered = sorted(sums, key=lambda row: (key(row), row.shown.shown.lower()))
    places: dict[tuple[float, ...], int] = {}
    return [
        PointsRow(
            place=places.setdefault(key(row), at + 1),
            user=row.shown.user,
            shown_name=row.shown.shown_name,
            pseudonym=row.pseudonym,
            total=row.total,
            cells=[row.cells.get(column) for column in range(columns)],
        )
        for at, row in enumerate(ordered)
    ]
