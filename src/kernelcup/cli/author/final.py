"""``kernelcup board final``: duels of the best after the deadline, and the official order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import BoardArgument, JsonOption
from kernelcup.cli.show.output import plain
from kernelcup.domain import Final, FinalPlace, Score
from kernelcup.errors import NotFound
from kernelcup.reporting.finals import DELETED, OFFICIAL
from kernelcup.reporting.phrases import rank_text
from kernelcup.reporting.report import score_text

if TYPE_CHECKING:
    from rich.console import Console


@with_backend
def final(
    backend: Backend,
    name: BoardArgument,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            min=2,
            max=30,
            metavar="K",
            help="How many of the best take part, and entries that share the rank of the last one; default: 10.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Default: the leaderboard's only device.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Hold another final; its order replaces that of the last one.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Hold the final of a leaderboard after its deadline, or show its official order.

    The best meet in duels, each measured in turns on one device, until every entry stands behind those that are
    known to be faster. All intervals hold together in 98 % of finals. Entries that go by the wall clock on a GPU,
    or cannot be measured, are compared by their ranked times instead, and the result says so.

    Duels wait in the queue, and a final goes on when the service starts again; the same command shows it.
    """
    from kernelcup.app.results import finals

    board = backend.board(name)
    chosen = device if device is not None or len(board.devices) > 1 else board.devices[0]
    found = None if again or chosen is None else find(backend, board.name, chosen)
    if found is None or (found.ended_at is None and found.waiting is None):
        backend.check_judges()
        found = backend.call(
            finals.start, board=board.name, device=chosen, top=top or finals.TOP, again=again
        )
    found = hold(backend, found, quiet=as_json)
    show(found, as_json=as_json)


def find(backend: Backend, board: str, device: str) -> Final | None:
    """Return the newest final of one (leaderboard, device), None if there is none to show."""
    from kernelcup.app.results import finals

    try:
        return backend.call(finals.get_final, board=board, device=device)
    except NotFound:
        return None


def hold(backend: Backend, found: Final, *, quiet: bool) -> Final:
    """Wait until a final has ended, or none of its duels is in the queue; return it."""
    while found.ended_at is None and found.waiting is not None:
        if not quiet:
            typer.echo(
                plain(f"duel {len(found.meetings) + 1} of the final on {found.device}: #{found.waiting}")
            )
        backend.judge(backend.submission(found.waiting), quiet=quiet)
        now = find(backend, found.leaderboard, found.device)
        if now is None or now.waiting == found.waiting:
            return found
        found = now
    return found


def show(found: Final, *, as_json: bool) -> None:
    """Print a final."""
    from kernelcup.cli.show import terminal
    from kernelcup.cli.show.output import fields

    if as_json:
        typer.echo(json.dumps(fields(found)))
        return
    print_final(terminal.console(), found)


def print_final(out: Console, final: Final) -> None:
    """Print the official order with its meetings, or how far the final is."""
    from kernelcup.cli.show.tables import cell, new_table, print_table

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
            cell(each.shown or DELETED),
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
