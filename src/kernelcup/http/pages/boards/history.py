"""A leaderboard's history and its duels."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from kernelcup.app.results import duel_list, overview
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages import wording
from kernelcup.http.pages.boards.boards import (
    DeviceName,
    Offset,
    head_of,
    is_speedup,
    numbers_of,
    points_of,
)
from kernelcup.http.pages.boards.plots import NARROW, WIDE, Strip, best_over_time, ratios, strips
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import binaries_text, duel_remark

RECORDS = 50
PLOTS = ((WIDE, 280), (NARROW, 200))
"""Widths and heights."""

router = APIRouter(route_class=PageRoute)


@router.get("/b/{name}/history")
def show_history(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, device: DeviceName = "", after: Offset = 0
) -> Response:
    """Show how the best time became shorter, and all times of those at the top."""
    head = head_of(db, name, device, viewer=actor, now=now)
    found = overview.improvements(db, head.board.name, head.device, viewer=actor)
    points, before_s = points_of(found, actor)
    times = overview.times_of_best(db, head.board.name, head.device, viewer=actor)
    rows = [Strip(name=each.user, seconds=each.seconds, own=each.own) for each in times]
    records = found.records[::-1]
    has_no_plot = head.classes or is_speedup(found)
    return render(
        request,
        "history.html",
        head=head,
        current="history",
        plot=[
            best_over_time(points, before_s=before_s, width=width, height=height)
            for width, height in PLOTS
            if not has_no_plot
        ],
        strips=[strips(rows, width=width) for width, _ in PLOTS if rows and not has_no_plot],
        records=records[after : after + RECORDS],
        leading=set() if head.classes else {each.id for each in _leading(found)},
        scale=TimeScale.of(each.score_s for each in records),
        after=after,
        numbers=numbers_of(head, "history", len(records), after, RECORDS),
        count=len(records),
        most=overview.MOST_RECORDS,
    )


@router.get("/b/{name}/duels")
def show_duels(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, device: DeviceName = ""
) -> Response:
    """List the duels for the first place."""
    head = head_of(db, name, device, viewer=actor, now=now)
    duels = duel_list.list_duels(db, head.board.name, head.device, viewer=actor)
    return render(request, "duels.html", head=head, current="duels", duels=duels)


@router.get("/b/{name}/duels/{number}")
def show_duel(
    name: str, number: int, request: Request, db: Db, actor: ActorDep, now: Now, device: DeviceName = ""
) -> Response:
    """Show one duel: what was measured in turns, and what came of it."""
    head = head_of(db, name, device, viewer=actor, now=now)
    found = duel_list.show_duel(db, head.board.name, head.device, number, viewer=actor)
    return render(
        request,
        "duel.html",
        head=head,
        current="duels",
        duel=found.shown,
        result=found.result,
        sentence=wording.duel_text(found.shown, found.result),
        remark=duel_remark(found.shown.outcome, found.shown.rival_id),
        binaries=binaries_text(found.binaries, "the challenger", "the incumbent"),
        plot=ratios(found.result.ratios) if found.result is not None else "",
    )


def _leading(found: overview.Improvements) -> list[Any]:
    best = found.before_s
    leading = []
    for each in found.records:
        if best is None or each.score_s < best:
            best = each.score_s
            leading.append(each)
    return leading
