"""A ranking as a picture to share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcup.drawing import Canvas
from kernelcup.reporting.phrases import rank_text

SCALE = 2
WIDTH = 760
MARGIN = 28
HEAD = 92
ROW = 44
FOOT = 40
MOST_ROWS = 25
"""Number of rows; the footer mentions further places."""

BACKGROUND = "#1e1f22"
STRIPE = "#2b2d31"
TEXT = "#f2f3f5"
FAINT = "#a6a9b0"
BAR = "#5865f2"
MEDALS = {1: "#e8b923", 2: "#b8bec8", 3: "#c77b3f"}

PLACE_X = MARGIN + 18
USER_X = MARGIN + 54
SCORE_X = 420
BAR_X = 440
BAR_WIDTH = WIDTH - MARGIN - BAR_X


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A place in a ranking."""

    rank: int
    user: str
    time: str
    """The time as text for people."""
    score_s: float
    tied: bool = False


def draw_ranking(board: str, device: str, rows: Sequence[Row], *, more: bool = False) -> bytes:
    """Return a PNG of a ranking, fastest first.

    Args:
        board: The leaderboard's name.
        device: The device's name.
        rows: The places; only the first ones fit.
        more: Whether there are further places.
    """
    shown = rows[:MOST_ROWS]
    height = HEAD + ROW * max(len(shown), 1) + FOOT
    canvas = Canvas(WIDTH, height, background=BACKGROUND, scale=SCALE)
    canvas.text((MARGIN, 24), board, 26, TEXT, width=WIDTH - 2 * MARGIN)
    canvas.text((MARGIN, 58), f"on {device}", 16, FAINT, width=WIDTH - 2 * MARGIN)
    slowest = max((row.score_s for row in shown), default=0.0)
    for i, row in enumerate(shown):
        _draw_row(canvas, HEAD + ROW * i, row, slowest=slowest, striped=i % 2 == 0)
    if not shown:
        canvas.text((MARGIN, HEAD + 10), "No one is ranked yet.", 17, FAINT)
    canvas.text((MARGIN, height - FOOT + 12), _foot(more or len(rows) > len(shown)), 13, FAINT)
    return canvas.png()


def _foot(more: bool) -> str:
    told = "lower is better; bars are times"
    return f"{told}; there are more below" if more else told


def _draw_row(canvas: Canvas, y: int, row: Row, *, slowest: float, striped: bool) -> None:
    if striped:
        canvas.box((MARGIN - 12, y, WIDTH - MARGIN + 12, y + ROW), STRIPE, radius=6)
    medal = MEDALS.get(row.rank)
    if medal is not None:
        canvas.disc((PLACE_X, y + ROW // 2), 13, medal)
    place_y = y + 12
    place = rank_text(row.rank, tied=row.tied)
    canvas.text((PLACE_X, place_y), place, 15, BACKGROUND if medal else FAINT, anchor="ma")
    canvas.text((USER_X, y + 11), row.user, 17, TEXT, width=SCORE_X - USER_X - 110)
    canvas.text((SCORE_X, y + 12), row.time, 16, TEXT, anchor="ra")
    share = row.score_s / slowest if slowest > 0 else 0.0
    length = max(4, round(BAR_WIDTH * share))
    canvas.box((BAR_X, y + 16, BAR_X + length, y + ROW - 16), medal or BAR, radius=5)
