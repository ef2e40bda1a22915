"""The card of a leaderboard: what other sites show beside a link to it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup.drawing import Canvas

WIDTH, HEIGHT = 1200, 630
MARGIN = 64
ROWS_TOP, ROW = 196, 68

BACKGROUND, STRIPE = "#14171c", "#1d2229"
TEXT, FAINT, BAR, FIRST = "#f2f4f7", "#9aa4b2", "#2c6e8f", "#2fa37c"

RANK_X = MARGIN + 16
USER_X = MARGIN + 116
TIME_X = 800
BAR_X, BAR_WIDTH = 836, WIDTH - MARGIN - 836


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A place in the ranking."""

    rank: str
    user: str
    time: str
    score_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What a card shows."""

    board: str
    device: str
    count: int
    """People in the ranking."""
    lines: tuple[Line, ...]
    frozen: bool
    ended: bool


def draw_card(card: Card) -> bytes:
    """Return the card as a PNG of 1200 by 630 pixels."""
    canvas = Canvas(WIDTH, HEIGHT, background=BACKGROUND)
    canvas.text((MARGIN, 52), card.board, 64, TEXT, width=WIDTH - 2 * MARGIN)
    canvas.text((MARGIN, 136), _subtitle(card), 30, FAINT, width=WIDTH - 2 * MARGIN)
    slowest = max((line.score_s for line in card.lines), default=0.0)
    for at, line in enumerate(card.lines):
        _draw_line(canvas, ROWS_TOP + ROW * at, line, slowest=slowest, is_first=at == 0)
    if not card.lines:
        canvas.text((MARGIN, ROWS_TOP + 20), "No result is ranked yet.", 34, FAINT)
    canvas.text((MARGIN, HEIGHT - 62), "KernelCup", 26, TEXT)
    canvas.text((WIDTH - MARGIN, HEIGHT - 62), "shorter is faster", 24, FAINT, anchor="ra")
    return canvas.png()


def _subtitle(card: Card) -> str:
    people = f"{card.count:,} {'person' if card.count == 1 else 'people'} ranked"
    state = "frozen" if card.frozen else "ended" if card.ended else ""
    return " · ".join(part for part in (f"fastest kernels on {card.device}", people, state) if part)


def _draw_line(canvas: Canvas, y: int, line: Line, *, slowest: float, is_first: bool) -> None:
    canvas.box((MARGIN, y, WIDTH - MARGIN, y + ROW - 8), STRIPE, radius=8)
    canvas.text((RANK_X, y + 14), line.rank, 30, FIRST if is_first else FAINT)
    canvas.text((USER_X, y + 14), line.user, 30, TEXT, width=TIME_X - USER_X - 200)
    canvas.text((TIME_X, y + 14), line.time, 30, TEXT, anchor="ra")
    share = line.score_s / slowest if slowest > 0 else 0.0
    length = max(6, round((BAR_WIDTH - 16) * share))
    canvas.box((BAR_X, y + 22, BAR_X + length, y + ROW - 30), FIRST if is_first else BAR, radius=6)
