"""Pictures for other pages: a badge with somebody's place, a card with the first five.

They show what everybody sees, whoever asks: other sites keep copies of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated
from xml.sax.saxutils import escape, quoteattr

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kernelcup.app.boards import boards
from kernelcup.app.results import freezes, standings
from kernelcup.domain import NOBODY, Standing
from kernelcup.http.dependencies import Db, Now
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import file_of
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import CORRECT, place_time, plural, rank_text

if TYPE_CHECKING:
    from kernelcup.drawing import Canvas

router = APIRouter(route_class=PageRoute)

SHOWN = 5
LETTER, ROUND = 7, 10
"""About how wide a letter is, and the space at the ends of a text."""

DeviceQuery = Annotated[str | None, Query(max_length=100, description="Default: the first one.")]


@router.get("/b/{name}/badge.svg")
def show_badge(
    name: str,
    request: Request,
    db: Db,
    user: Annotated[str, Query(max_length=200)],
    device: DeviceQuery = None,
) -> Response:
    """Send a picture of a user's place and time."""
    board = boards.get_board(db, name, viewer=NOBODY)
    chosen = device or board.devices[0]
    place = standings.personal_best(db, board.name, chosen, user, viewer=NOBODY)
    label = f"{board.name} · {standings.board_device(board, chosen)}"
    text = (
        "not ranked"
        if place is None
        else f"{_rank(place)} · {place_time(place.score_s, place.ranked_by, place.score.speedup)}"
    )
    return file_of(request, "image/svg+xml", lambda: _svg(label, text).encode(), facts=(label, text))


@router.get("/b/{name}/card.png")
def show_card(name: str, request: Request, db: Db, now: Now, device: DeviceQuery = None) -> Response:
    """Send a picture of the first five, of the first class of machines if there are several."""
    board = boards.get_board(db, name, viewer=NOBODY)
    chosen = standings.board_device(board, device or board.devices[0])
    its_class = next(iter(standings.classes(db, board.name, chosen, viewer=NOBODY)), None)
    places = standings.standings(db, board.name, chosen, host_class=its_class, viewer=NOBODY, limit=SHOWN)
    scale = TimeScale.of(each.score_s for each in places)
    since = freezes.frozen_since(db, board.name, viewer=NOBODY, now=now)
    card = Card(
        board=board.name,
        device=chosen if its_class is None else f"{chosen}, {its_class}",
        count=standings.count_places(db, board.name, chosen, host_class=its_class, viewer=NOBODY),
        lines=tuple(
            Line(
                rank=_rank(each),
                user=each.shown,
                time=CORRECT if each.time_s is None else scale.place(each.score_s, each.score.speedup),
                score_s=each.time_s or 0.0,
            )
            for each in places
        ),
        frozen=since is not None,
        ended=board.phase(now) == "closed",
    )
    return file_of(request, "image/png", lambda: _drawn(card), facts=card)


@lru_cache(maxsize=64)
def _drawn(card: Card) -> bytes:
    return draw_card(card)


def _rank(place: Standing) -> str:
    return f"#{rank_text(place.rank, tied=place.tied)}"


def _svg(label: str, text: str) -> str:
    left, right = (len(each) * LETTER + 2 * ROUND for each in (label, text))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="22" role="img" \
aria-label={quoteattr(f"{label}: {text}")}>
<title>{escape(f"{label}: {text}")}</title>
<clipPath id="r"><rect width="{left + right}" height="22" rx="4"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="22" fill="#3d4450"/>\
<rect x="{left}" width="{right}" height="22" fill="#0b6e4f"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11.5">\
<text x="{ROUND}" y="15" textLength="{left - 2 * ROUND}" lengthAdjust="spacingAndGlyphs">{escape(label)}</text>\
<text x="{left + ROUND}" y="15" textLength="{right - 2 * ROUND}" lengthAdjust="spacingAndGlyphs">\
{escape(text)}</text></g>
</svg>
"""


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
    from kernelcup.drawing import Canvas

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
    people = f"{plural(card.count, 'person', 'people')} ranked"
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
