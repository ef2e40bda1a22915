"""Finals as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcup.cli.show.plain_text import plain
from kernelcup.cli.show.tables import cell, new_table, print_table
from kernelcup.domain import Final, FinalPlace, Score
from kernelcup.reporting.finals import DELETED, OFFICIAL
from kernelcup.reporting.phrases import rank_text
from kernelcup.reporting.report import score_text

if TYPE_CHECKING:
    from rich.console import Console


def print_final(out: Console, final: Final) -> None:
    """Print the official order with its meetings, or how far the final is."""
    title = f"{OFFICIAL} of {final.leaderboard} on {final.device}".capitalize()
    table = new_table(
        "place",
        "user",
        "submission",
        "rank before",
        "ranked time",
        right=("place", "submission", "rank before"),
    )
    for each in final.places:
        table.add_row(
            rank_text(each.place, tied=each.tied),
            cell(each.user or DELETED),
            f"#{each.submission}",
            str(each.rank),
            time_text(each),
        )
    print_table(out, title, table, final.sentence, drop=("ranked time", "rank before"))
    for meeting in final.meetings:
        out.print(f"  {plain(meeting.sentence)}", markup=False, highlight=False)


def time_text(place: FinalPlace) -> str:
    """Return the score that an entry had in the standings, with its interval."""
    names = ("score_s", "low_s", "high_s", "speedup")
    return score_text(Score(**{name: getattr(place, name) for name in names}))
