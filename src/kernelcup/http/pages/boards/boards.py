"""Leaderboards: the overview, and each one's ranking, history and duels."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.events import announcements, events
from kernelcup.app.machines.placement import is_lent_only
from kernelcup.app.results import finals, overview, standings
from kernelcup.app.results.facts import facts_of
from kernelcup.app.results.overview import BoardSummary
from kernelcup.app.submissions.submissions import list_views
from kernelcup.app.submissions.submit import obstacles
from kernelcup.domain import Actor, Leaderboard, Ruling, Standing
from kernelcup.engine.database import Database
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages import wording
from kernelcup.http.pages.boards.plots import Point, best_over_time
from kernelcup.http.pages.boards.rows import Table, table_of
from kernelcup.http.pages.rendering import in_pieces, render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import (
    classes_text,
    rejudge_command,
    waiting_text,
)

PAGE = 50
MOST_IN_CSV = 100_000
CLOSED_AT_ONCE = 30
RECENT = 10
"""The latest submission is looked for among this many of the reader's: the others may be comparisons."""

router = APIRouter(route_class=PageRoute)

DeviceName = Annotated[str, Query(max_length=100)]
ClassName = Annotated[str, Query(alias="class", max_length=1000)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]


@router.get("/")
def show_overview(
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    q: Annotated[str, Query(max_length=200)] = "",
    every: Annotated[bool, Query(alias="all")] = False,
) -> Response:
    """Show all leaderboards that the reader may see: open, upcoming, closed."""
    found = overview.list_summaries(db, viewer=actor, words=q)
    groups: dict[str, list[BoardSummary]] = {"open": [], "upcoming": [], "closed": []}
    for each in found:
        groups[each.board.phase(now)].append(each)
    groups["open"].sort(key=lambda each: (each.board.deadline is None, each.board.deadline or now))
    closed = groups["closed"] if every or q else groups["closed"][:CLOSED_AT_ONCE]
    return render(
        request,
        "overview.html",
        words=q,
        groups=groups | {"closed": closed},
        more_closed=len(groups["closed"]) - len(closed),
        any_at_all=bool(found) or bool(q),
        events=[] if q else events.list_events(db, actor),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The head of each page of a leaderboard."""

    summary: BoardSummary
    device: str
    phase: str
    masked: bool
    manages: bool
    frozen_since: datetime | None
    lent_only: bool
    """Whether the device is ranked on lent machines, without hidden cases."""
    classes: list[str]
    """The classes of machines that rank for themselves; none while the device has one ranking."""
    host_class: str | None
    """The one whose ranking is shown; None for all."""

    @property
    def split(self) -> str:
        """Why classes of machines rank for themselves, if they do."""
        return classes_text(self.device) if self.classes else ""

    @property
    def board(self) -> Leaderboard:
        return self.summary.board

    def url(self, part: str = "", **query: Any) -> str:
        """Return the address of one of its pages."""
        path = f"/b/{self.board.name}" + (f"/{part}" if part else "")
        return f"{path}?{urlencode(query)}" if query else path


def head_of(
    db: Database, name: str, device: str, *, viewer: Actor, now: datetime, host_class: str = ""
) -> Head:
    """Return the head that all pages of a leaderboard share.

    Raises:
        NotFound: It does not exist for the viewer.
        UnknownDevice: It has no such device.
    """
    summary = overview.show_summary(db, name, viewer=viewer)
    board = summary.board
    since = visibility.hidden_since(board, viewer)
    chosen = standings.board_device(board, device) if device else board.devices[0]
    return Head(
        summary=summary,
        device=chosen,
        phase=board.phase(now),
        masked=visibility.is_masked(board, viewer),
        manages=access.manages_board(viewer, board),
        frozen_since=since if since is not None and since <= now else None,
        lent_only=is_lent_only(db, board.id, chosen),
        classes=standings.classes(db, board.name, chosen, viewer=viewer),
        host_class=host_class or None,
    )


@router.get("/b/{name}")
def show_board(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    device: DeviceName = "",
    host_class: ClassName = "",
    after: Offset = 0,
    who: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show the ranking of one of a leaderboard's devices, or one for each class of its machines.

    ``who`` leads to the page with a person's place.
    """
    head = head_of(db, name, device, viewer=actor, now=now, host_class=host_class)
    if who and (place := _row_of(db, head, who.strip(), actor)):
        return RedirectResponse(place, 303)
    # Before the ranking is read: a change in between is then told to the page, if only once too often.
    revision = standings.revision(db, head.board.name, head.device, viewer=actor)
    own = _own_place(db, head, actor)
    tables = _tables(db, head, actor, own, after)
    table = next((each for each in tables if own is None or each.host_class == own.host_class), None)
    one_class = head.host_class or (own.host_class if own is not None else "")
    entries = next(each.entries for each in head.summary.devices if each.device == head.device)
    if one_class:
        entries = standings.count_places(db, name, head.device, host_class=one_class, viewer=actor)
    found = overview.improvements(db, head.board.name, head.device, viewer=actor)
    points = points_of(found, actor, wanted=300)
    return render(
        request,
        "board.html",
        head=head,
        current="ranking",
        live=head.url("live", device=head.device, since=revision),
        tables=tables,
        entries=entries,
        after=after,
        numbers=numbers_of(head, "", entries, after, PAGE) if len(tables) == 1 or after else [],
        who_wanted=who,
        announced=announcements.newest(db, actor, head.board),
        obstacles=obstacles(db, actor, head.board, [head.device], now=now),
        own=own,
        gap=_gap(db, head, actor, own),
        scale=table.scale if table else None,
        rival=_rival(db, head, actor, own),
        latest=_latest(db, head, actor, own),
        apart=[] if after else [_apart(db, head, why, actor) for why in (Ruling.PRACTICE, Ruling.LEVEL)],
        waiting=_waiting(db, head, actor),
        final=None if after else finals.show(db, head.board.name, head.device, viewer=actor, now=now),
        # Times of several classes are not on one line.
        plot="" if head.classes or is_speedup(found) else best_over_time(points[0], before_s=points[1]),
    )


def _apart(db: Database, head: Head, why: Ruling, viewer: Actor) -> list[Standing]:
    return standings.standings_apart(db, head.board.name, head.device, why, viewer=viewer)


def _row_of(db: Database, head: Head, who: str, viewer: Actor) -> str:
    """Return the address of a person's row in the ranking, empty where they have none."""
    place = standings.find_place(
        db, head.board.name, head.device, who, host_class=head.host_class, viewer=viewer
    )
    if place is None:
        return ""
    of_class, above, submission = place
    query: dict[str, Any] = {"device": head.device, "after": above // PAGE * PAGE}
    if of_class:
        query["class"] = of_class
    return f"{head.url(**query)}#row-{submission}"


def numbers_of(head: Head, part: str, count: int, after: int, size: int) -> list[tuple[int, str]]:
    query = {"device": head.device} | ({"class": head.host_class} if head.host_class else {})
    return wording.page_links(count, after, size, lambda at: head.url(part, **query, after=at))


@router.get("/b/{name}/standings.csv")
def download_standings(
    name: str, platform: PlatformDep, actor: ActorDep, now: Now, device: DeviceName = ""
) -> Response:
    """Send a ranking as a table for other programs."""
    db = platform.db
    head = head_of(db, name, device, viewer=actor, now=now)
    revision = standings.revision(db, head.board.name, head.device, viewer=actor)
    # Of a pseudonymous leaderboard each reader sees their own name. Shown names change without the ranking.
    reader = actor.user_id if head.masked else access.inspects_board(actor, head.board)
    key = (head.board.id, head.device, head.masked, reader, revision, now.date(), now.hour)
    table = platform.room.cache.get(key, lambda: _csv(db, head, actor))
    told = {"Content-Disposition": f'attachment; filename="{head.board.name}-{head.device}.csv"'}
    return in_pieces(table, media_type="text/csv; charset=utf-8", headers=told)


def _csv(db: Database, head: Head, viewer: Actor) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        "rank user seconds low_s high_s submission submitted_at trust class ranked_by speedup shown_name".split()
    )
    for each in standings.standings(db, head.board.name, head.device, viewer=viewer, limit=MOST_IN_CSV):
        row = [each.rank, each.user, *each.times_s, each.submission_id]
        row += [each.submitted_at.isoformat(), each.trust, each.host_class, each.ranked_by.value]
        row += [each.score.speedup, each.shown_name]
        # A name that begins with a sign of a formula stays text in a spreadsheet.
        writer.writerow([f"'{cell}" if str(cell)[:1] in tuple("=+-@\t") else cell for cell in row])
    return text.getvalue().encode()


def _tables(db: Database, head: Head, viewer: Actor, own: Standing | None, after: int) -> list[Table]:
    """Return a page of a ranking, or the first pages of all classes of machines."""
    board, device, tables = head.board.name, head.device, []
    if head.host_class is None:
        pages = standings.rankings(db, board, device, viewer=viewer, limit=PAGE + 1, offset=after)
    else:
        of = head.host_class
        pages = [
            standings.standings(db, board, device, host_class=of, viewer=viewer, limit=PAGE + 1, offset=after)
        ]
    for places in pages:
        if not places:
            continue
        shown, follows = places[:PAGE], places[PAGE] if len(places) > PAGE else None
        first = shown[0] if after == 0 else _first(db, head, viewer, shown[0].host_class or None)
        tables.append(
            table_of(
                shown,
                facts_of(db, board, device, shown, viewer=viewer),
                first=first,
                own_submission=None if own is None else own.submission_id,
                reference_s=None
                if head.classes
                else next(each.reference_s for each in head.summary.devices if each.device == device),
                follows=follows,
            )
        )
    return tables


def _first(db: Database, head: Head, viewer: Actor, host_class: str | None) -> Standing:
    return standings.standings(
        db, head.board.name, head.device, host_class=host_class, viewer=viewer, limit=1
    )[0]


def _waiting(db: Database, head: Head, viewer: Actor) -> str:
    """Return that users have no place until earlier results are judged again; empty if there are none."""
    name = head.board.name
    count = standings.count_waiting(db, name, head.device, viewer=viewer)
    if not count:
        return ""
    left = standings.count_waiting(db, name, head.device, viewer=viewer, under_way=True)
    return waiting_text(count, rejudge_command(name) if head.manages else "", left=left)


def _own_place(db: Database, head: Head, viewer: Actor) -> Standing | None:
    if viewer.user_id is None:
        return None
    return standings.personal_best(
        db, head.board.name, head.device, viewer.name, host_class=head.host_class, viewer=viewer
    )


def _gap(db: Database, head: Head, viewer: Actor, own: Standing | None) -> Standing | None:
    """Return the place right above the reader's band, None at the top."""
    if own is None or own.rank < 2:
        return None
    above = standings.standings(
        db,
        head.board.name,
        head.device,
        host_class=own.host_class or None,
        viewer=viewer,
        limit=1,
        offset=own.rank - 2,
    )
    return above[0] if above else None


def _rival(db: Database, head: Head, viewer: Actor, own: Standing | None) -> Standing | None:
    """Return whom the reader's result is offered to be compared with: the first, or who comes next of one's own."""
    if own is None:
        return None
    top = standings.standings(
        db, head.board.name, head.device, host_class=own.host_class or None, viewer=viewer, limit=2
    )
    return next((each for each in top if each.submission_id != own.submission_id), None)


def _latest(db: Database, head: Head, viewer: Actor, own: Standing | None) -> wording.OwnResult | None:
    """Return the state of the reader's latest submission, if the ranking does not show it."""
    if viewer.user_id is None:
        return None
    views = list_views(db, viewer=viewer, user=viewer.name, board=head.board.name, limit=RECENT)
    latest = next((each for each in views if not each.is_comparison), None)
    if latest is None:
        return None
    return wording.own_result(latest, head.board, head.device, own)


def points_of(
    found: overview.Improvements, viewer: Actor, *, wanted: int | None = None
) -> tuple[list[Point], float | None]:
    """Return personal bests as points; of more than wanted only the newest, and the best before them."""
    records = found.records if wanted is None else found.records[-wanted:]
    left_out = found.records[: len(found.records) - len(records)]
    times = [each.score_s for each in left_out]
    if found.before_s is not None:
        times.append(found.before_s)
    points = [
        Point(at=each.at, seconds=each.score_s, name=each.shown, own=each.user_id == viewer.user_id)
        for each in records
    ]
    return points, min(times, default=None)


def is_speedup(found: overview.Improvements) -> bool:
    """Return whether scores are speedups, for which the plots' axis of seconds means nothing."""
    return any(each.speedup is not None for each in found.records)
