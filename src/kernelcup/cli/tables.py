"""Tables that fit where they are printed: columns go by priority, and no word or number is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

WIDEST = 10_000
GAP = 2
"""Blanks behind each column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Need:
    """How wide a column has to be so that no word is broken, and so that nothing is wrapped."""

    least: int
    most: int


def fit(out: Console, table: Table, drop: Sequence[str] = ()) -> list[str]:
    """Give each column of a table its width; return the names of those that had to go.

    Args:
        out: Where the table is printed.
        table: Made by :func:`kernelcup.cli.render.new_table`.
        drop: Columns that may go, the one that is missed least first.
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
    """Return how wide a table has to be so that no word is broken."""
    return sum(_need(out, column).least + GAP for column in table.columns)


def _need(out: Console, column: Column) -> _Need:
    options = out.options.update(width=WIDEST)
    header = Text(str(column.header))
    found = [Measurement.get(out, options, cell) for cell in (header, *column.cells)]
    most = max(each.maximum for each in found)
    return _Need(least=most if column.no_wrap else max(each.minimum for each in found), most=most)


def _share_out(table: Table, needs: Sequence[_Need], width: int) -> None:
    """Give columns what they need, those first that need little more than their longest word."""
    left = width - sum(need.least + GAP for need in needs)
    if left < 0:
        return  # nothing more may go: what is longest wraps
    pairs = sorted(zip(table.columns, needs, strict=True), key=lambda pair: pair[1].most - pair[1].least)
    for column, need in pairs:
        more = min(left, need.most - need.least)
        column.width = need.least + more
        left -= more
