"""Tables that fit the console: columns are dropped by priority, and no word or number is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

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
        table: Made by :func:`kernelcup.cli.show.render.new_table`.
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
