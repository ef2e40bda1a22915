"""Rankings as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from kernelcup import scoring
from kernelcup.cli.show.output import json_object
from kernelcup.cli.show.tables import cell, new_table, print_table
from kernelcup.client.models import BoardInfo
from kernelcup.domain import DuelOutcome, Leaderboard, RankedBy, Standing, Table
from kernelcup.reporting.phrases import (
    classes_text,
    place_time,
    rank_text,
    ranking_notes,
    score_interval,
    unranked,
)
from kernelcup.reporting.phrases import trust_text as trust_level_text

WHOLE = ("time", "95 % interval", "submitted (UTC)", "trust")
"""Columns that no line breaks: others are dropped for them."""
ONE_PROCESS = "without a GPU an interval covers calls of one process, not a rerun"


def standings(out: Console, board: Leaderboard | BoardInfo, device: str, places: Sequence[Standing]) -> None:
    """Print the ranking of one (leaderboard, device), or one table for each class of its machines."""
    title = f"{board.name} on {device}"
    if not places:
        out.print(Text(f"{title}: no one is ranked yet", style="bold"))
        return
    if places[0].host_class:
        out.print(classes_text(device))
    _tables_by_class(out, title, places, (ONE_PROCESS,) if board.cpu_times else ())


def _tables_by_class(
    out: Console, title: str, places: Sequence[Standing], notes: Sequence[str] = (), *, ranked: bool = True
) -> None:
    for host_class, part in groupby(places, key=lambda each: each.host_class):
        places_table(out, f"{title}, {host_class}" if host_class else title, list(part), notes, ranked=ranked)


def print_apart(out: Console, board: BoardInfo, device: str, table: Table, limit: int) -> None:
    """Print results from after the deadline, and of a level that the leaderboard does not rank."""
    title = f"{board.name} on {device}"
    _tables_by_class(out, f"{title}, practice after the deadline", table.practice[:limit])
    notes = (unranked(board.trust),)
    _tables_by_class(out, f"{title}, not ranked", table.unranked[:limit], notes, ranked=False)


def places_table(
    out: Console, title: str, places: Sequence[Standing], notes: Sequence[str] = (), *, ranked: bool = True
) -> None:
    """Print places under a title, with notes before those that explain the marks of places."""
    columns = (
        "rank",
        "user",
        "time",
        "95 % interval",
        "file",
        "language",
        "submission",
        "submitted (UTC)",
        "trust",
    )
    table = new_table(*columns, right=("rank", "time", "95 % interval", "submission"), whole=WHOLE)
    for place in places:
        table.add_row(
            rank_text(place.rank, tied=place.tied) if ranked else "–",
            cell(place.shown),
            place_time(place.score_s, place.ranked_by, place.score.speedup),
            score_interval(place.score),
            cell(place.file_name),
            place.language,
            f"#{place.submission_id}",
            f"{place.submitted_at:%Y-%m-%d %H:%M}",
            trust_text(place),
        )
    caption = "; ".join((*notes, *ranking_notes(places, is_ranked=ranked)))
    print_table(
        out,
        title,
        table,
        caption,
        drop=("submitted (UTC)", "language", "file", "submission", "trust", "95 % interval"),
    )


def trust_text(place: Standing) -> str:
    """Return a time's trust level as a column's text, with the outcome of a duel, or what else gave it its place."""
    told = trust_level_text(place.trust).removeprefix("by the ")
    told += ", lent machine" if place.lent else ""
    told += f", isolation: {place.isolation}" if place.isolation else ""
    told += ", upper end" if place.ranked_by is RankedBy.UPPER_END else ""
    return f"{told}, duel {place.duel.value}" if place.duel is not DuelOutcome.NONE else told


def place_object(place: Standing) -> dict[str, object]:
    """Return a standing as ``--json`` prints it."""
    names = ("rank", "tied", "user", "host_class", "duel", "submitted_at", "file_name", "language", "trust")
    more = ("shown_name", "comparable", "lent", "isolation", "ranked_by")
    facts = json_object(place, *names, *more, **scoring.as_object(place.score))
    return facts | {"submission": place.submission_id}
