"""Tables that fit the console: columns are dropped by priority, and no word or number is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from kernelcup.cli.show.output import plain

WIDEST = 10_000
GAP = 2
"""Spaces after each column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Need:
    """The width that a column needs to break no word, and to wrap nothing."""

    least: int
    most: int


def fit(out: Console, table: Table, drop: Sequence[str] = ()) -> list[str]:
    """Set the width of each column of a table; return the names of the dropped columns.

    Args:
        out: Where the table is printed.
        table: Made by :func:`kernelcup.cli.show.tables.new_table`.
        drop: Columns that may be dropped, least important first.
    """
    gone: list[str] = []
    for name in drop:
        if least_width(out, table) <= out.width:
            break
        table.columns[:] = [column for column in table.columns if column.header != name]
        gone.append(name)
    _share_out(table, [_need(out, column) for column in table.columns], out.width)
    return gone


def least_width(out: Console, table: Table) -> int:
    """Return the width that a table needs to break no word."""
    return sum(_need(out, column).least + GAP for column in table.columns)


def _need(out: Console, column: Column) -> _Need:
    options = out.options.update(width=WIDEST)
    header = Text(str(column.header))
    found = [Measurement.get(out, options, cell) for cell in (header, *column.cells)]
    most = max(each.maximum for each in found)
    return _Need(least=most if column.no_wrap else max(each.minimum for each in found), most=most)


def _share_out(table: Table, needs: Sequence[_Need], width: int) -> None:
    """Share out the width; columns that need little more than their longest word come first."""
    left = width - sum(need.least + GAP for need in needs)
    if left < 0:
        return  # no column is left to drop: the longest cells wrap
    pairs = sorted(zip(table.columns, needs, strict=True), key=lambda pair: pair[1].most - pair[1].least)
    for column, need in pairs:
        more = min(left, need.most - need.least)
        column.width = need.least + more
        left -= more


def print_table(
    out: Console, title: str, table: Table, caption: str = "", *, drop: Sequence[str] = ()
) -> None:
    """Print a title and a table whose columns wrap at words.

    If the table is too wide, the columns in ``drop`` are left out, in that order.
    """
    gone = fit(out, table, drop)
    if title:
        out.print(Text(plain(title), style="bold"))
    out.print(table, soft_wrap=False)
    left_out = f"no room for: {', '.join(gone)}; --json has all" if gone else ""
    for text in filter(None, (caption, left_out)):
        out.print(Text(plain(text), style="dim"))


def new_table(*columns: str, right: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """Return a table in the common style; some columns are right-aligned, some never wrapped."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        justify: JustifyMethod = "right" if column in right else "left"
        table.add_column(column, justify=justify, no_wrap=column in whole, overflow="fold")
    return table


def cell(value: object) -> Text:
    """Return a table cell's text, without markup."""
    return Text(plain(str(value)))
