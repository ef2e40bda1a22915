"""What people see on Discord, as a picture in SVG.

The little of Discord's markdown that the bot writes is drawn: bold, code, headings, quotes, small print.
Fonts are the reader's; widths are measured with one that is about as wide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from chat_log import Entry
from chat_text import BUTTON, INPUT, MENU, embed_lines
from PIL import ImageFont

WIDTH = 780
LEFT = 70
RIGHT = 24
LINE = 20
SIZE = 14
MONO = 8.43
"""The width of a letter of code."""
SANS_FAMILY = "'gg sans', 'DejaVu Sans', Verdana, sans-serif"
MONO_FAMILY = "'DejaVu Sans Mono', Menlo, Consolas, monospace"

BACKGROUND, PANEL, CODE_PANEL = "#313338", "#2b2d31", "#1e1f22"
TEXT, FAINT, LINK = "#dbdee1", "#949ba4", "#00a8fc"
BUTTONS = {1: "#5865f2", 2: "#4e5058", 3: "#248046", 4: "#da373c", 5: "#4e5058"}
AVATARS = ("#5865f2", "#3ba55c", "#faa61a", "#eb459e", "#ed4245")

_SPAN = re.compile(
    r"\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`|\[(?P<label>[^\]]+)\]\(https?://[^)]+\)"
    r"|(?P<link>https?://\S*[^\s.,;)])"
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_HIDDEN = "\ue000"
"""Where an escaped character stands while spans are looked for; its code follows."""

Span = tuple[str, str]
"""A style (plain, bold, code, link, small, head) and a text."""


@dataclass
class Sheet:
    """A drawing that grows downwards."""

    width: int = WIDTH
    y: float = 16
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, colour: str, radius: float = 4) -> None:
        """Fill a box."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" fill="{colour}"/>'
        )

    def text(self, x: float, spans: Sequence[Span], *, colour: str = TEXT, size: float = SIZE) -> None:
        """Write a line at the height that was reached, without going down."""
        pieces = "".join(_tspan(style, text) for style, text in spans)
        self.parts.append(
            f'<text x="{x:g}" y="{self.y + LINE - 6:g}" font-size="{size:g}" fill="{colour}" '
            f'xml:space="preserve">{pieces}</text>'
        )

    def finish(self, title: str) -> str:
        """Return the picture."""
        height = round(self.y + 16)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" font-family="{escape(SANS_FAMILY)}" role="img">'
            f"<title>{escape(title)}</title>"
        )
        ground = f'<rect width="{self.width}" height="{height}" rx="8" fill="{BACKGROUND}"/>'
        return "\n".join([head, ground, *self.parts, "</svg>", ""])


def as_svg(entries: Sequence[Entry], title: str) -> str:
    """Return a picture of entries, one below the other."""
    sheet = Sheet()
    where = None
    for entry in entries:
        if entry.where != where:
            where = entry.where
            sheet.text(24, [("bold", f"# {where}")], colour=FAINT)
            sheet.y += LINE + 6
        _draw_entry(sheet, entry)
        sheet.y += 12
    return sheet.finish(title)


def _draw_entry(sheet: Sheet, entry: Entry) -> None:
    if entry.is_action:
        for i, line in enumerate(_wrapped([("plain", f"{entry.who}  {entry.text}")], WIDTH - LEFT - RIGHT)):
            sheet.text(LEFT - 20, [("plain", "↱ "), *line] if i == 0 else line, colour=FAINT, size=13)
            sheet.y += LINE
        return
    _draw_author(sheet, entry)
    _draw_text(sheet, entry.text, LEFT, WIDTH - RIGHT)
    for embed in entry.embeds:
        _draw_embed(sheet, embed)
    for name in entry.files:
        sheet.y += 4
        sheet.box(LEFT, sheet.y, max(240.0, _measure(name, "plain") + 60), 34, PANEL)
        sheet.y += 7
        sheet.text(LEFT + 12, [("plain", "📄 "), ("link", name)])
        sheet.y += 31
    _draw_controls(sheet, entry.controls)
    if entry.private:
        sheet.text(LEFT, [("plain", "Only you can see this")], colour=FAINT, size=11)
        sheet.y += LINE - 2


def _draw_author(sheet: Sheet, entry: Entry) -> None:
    colour = AVATARS[0] if entry.is_bot else AVATARS[1 + sum(map(ord, entry.who)) % (len(AVATARS) - 1)]
    sheet.parts.append(f'<circle cx="40" cy="{sheet.y + 18:g}" r="18" fill="{colour}"/>')
    sheet.parts.append(
        f'<text x="40" y="{sheet.y + 24:g}" font-size="16" fill="#fff" text-anchor="middle">'
        f"{escape(entry.who[:1].upper())}</text>"
    )
    sheet.text(LEFT, [("bold", entry.who)], colour="#fff")
    x = LEFT + _measure(entry.who, "bold") + 8
    if entry.is_bot:
        sheet.box(x, sheet.y + 2, 34, 15, "#5865f2", 3)
        sheet.text(x + 6, [("bold", "APP")], colour="#fff", size=10)
    if entry.edited:
        sheet.text(x + 42, [("plain", "(edited)")], colour=FAINT, size=11)
    sheet.y += LINE + 2


def _draw_text(sheet: Sheet, text: str, left: float, right: float) -> None:
    for is_code, block in _blocks(text):
        if is_code:
            _draw_code(sheet, block, left, right)
        else:
            for line in block.splitlines():
                _draw_line(sheet, line, left, right)


def _draw_line(sheet: Sheet, line: str, left: float, right: float) -> None:
    size, colour, is_head = float(SIZE), TEXT, False
    if match := re.match(r"(#{1,3}) (.*)", line):
        size, line, is_head = {1: 20.0, 2: 17.0, 3: 15.0}[len(match[1])], match[2], True
        sheet.y += 4
    elif line.startswith("-# "):
        size, colour, line = 12.0, FAINT, line[3:]
    elif line.startswith("> "):
        sheet.box(left, sheet.y, 3, LINE, FAINT, 1)
        left, line = left + 12, line[2:]
    parts = [("bold" if is_head and style == "plain" else style, text) for style, text in _spans(line)]
    for spans in _wrapped(parts, (right - left) * SIZE / size):
        sheet.text(left, spans, colour=colour, size=size)
        sheet.y += LINE + (4 if size > SIZE else 0)


def _draw_code(sheet: Sheet, code: str, left: float, right: float) -> None:
    room = int((right - left - 20) / MONO)
    lines = [line[i : i + room] for line in code.splitlines() for i in range(0, max(len(line), 1), room)]
    sheet.y += 4
    sheet.box(left, sheet.y, right - left, 18 * len(lines) + 14, CODE_PANEL)
    sheet.y += 5
    for line in lines:
        sheet.text(left + 10, [("code", line)])
        sheet.y += 18
    sheet.y += 13


def _draw_embed(sheet: Sheet, embed: dict[str, Any]) -> None:
    top = sheet.y + 4
    at = len(sheet.parts)
    sheet.y = top + 8
    title = embed.get("title")
    if title:
        _draw_line(sheet, f"**{title}**", LEFT + 16, WIDTH - RIGHT - 60)
    rest = list(embed_lines({**embed, "title": None, "footer": None}))
    _draw_text(sheet, "\n".join(rest), LEFT + 16, WIDTH - RIGHT - 60)
    if (embed.get("footer") or {}).get("text"):
        _draw_line(sheet, f"-# {embed['footer']['text']}", LEFT + 16, WIDTH - RIGHT - 60)
    sheet.y += 8
    colour = f"#{embed.get('color') or 0x5865F2:06x}"
    height = sheet.y - top
    under = Sheet()
    under.box(LEFT, top, WIDTH - RIGHT - 40 - LEFT, height, PANEL)
    under.box(LEFT, top, 4, height, colour, 2)
    sheet.parts[at:at] = under.parts
    sheet.y += 4


def _draw_controls(sheet: Sheet, controls: Sequence[dict[str, Any]]) -> None:
    buttons = [part for part in controls if part["type"] == BUTTON]
    x = float(LEFT)
    for i, part in enumerate(buttons):
        label = str(part.get("label") or (part.get("emoji") or {}).get("name"))
        width = _measure(label, "plain") + 28
        if x + width > WIDTH - RIGHT:
            x, sheet.y = float(LEFT), sheet.y + 38
        sheet.y += 6 if i == 0 else 0
        colour = "#3b3d44" if part.get("disabled") else BUTTONS[part.get("style", 2)]
        sheet.box(x, sheet.y, width, 30, colour)
        sheet.y += 5
        sheet.text(x + 14, [("plain", label)], colour=FAINT if part.get("disabled") else "#fff")
        sheet.y -= 5
        x += width + 8
    sheet.y += 36 if buttons else 0
    for part in controls:
        if part["type"] == MENU:
            _draw_menu(sheet, part)
        elif part["type"] == INPUT:
            sheet.text(LEFT, [("bold", str(part.get("label")))], colour=FAINT, size=12)
            sheet.y += LINE
            sheet.box(LEFT, sheet.y, 420, 32, CODE_PANEL)
            sheet.y += 6
            sheet.text(
                LEFT + 12, [("plain", str(part.get("value") or part.get("placeholder") or ""))], colour=FAINT
            )
            sheet.y += 32


def _draw_menu(sheet: Sheet, part: dict[str, Any]) -> None:
    sheet.y += 6
    options = part["options"][:6]
    sheet.box(LEFT, sheet.y, 420, 36 + 24 * len(options), CODE_PANEL)
    sheet.y += 8
    sheet.text(
        LEFT + 12, [("plain", str(part.get("placeholder") or "Choose")), ("plain", "   ▾")], colour=FAINT
    )
    sheet.y += 28
    for option in options:
        chosen = "☑ " if option.get("default") else "☐ "
        sheet.text(LEFT + 12, [("plain", chosen + option["label"])])
        sheet.y += 24


def _blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Cut a text into code blocks and what is between them."""
    for i, piece in enumerate(re.split(r"```(?:\w*\n)?", text)):
        if piece.strip("\n"):
            yield i % 2 == 1, piece.strip("\n")


def _spans(line: str) -> list[Span]:
    line = _ESCAPE.sub(lambda m: f"{_HIDDEN}{ord(m[1]):03d}", line)
    spans: list[Span] = []
    at = 0
    for match in _SPAN.finditer(line):
        spans.append(("plain", line[at : match.start()]))
        kind = str(match.lastgroup)
        spans.append(("link" if kind == "label" else kind, match[kind]))
        at = match.end()
    spans.append(("plain", line[at:]))
    return [(style, _shown(text)) for style, text in spans if text]


def _shown(text: str) -> str:
    return re.sub(rf"{_HIDDEN}(\d{{3}})", lambda m: chr(int(m[1])), text).replace("\u200b", "")


def _wrapped(spans: Sequence[Span], width: float) -> Iterator[list[Span]]:
    """Break spans into lines at blanks."""
    line: list[Span] = []
    used = 0.0
    for style, text in spans:
        for word in re.findall(r"\s+|\S+", text):
            length = _measure(word, style)
            if used + length > width and line:
                yield line
                line, used = [], 0.0
                if word.isspace():
                    continue
            line.append((style, word))
            used += length
    if line:
        yield line


def _tspan(style: str, text: str) -> str:
    shown = escape(text)
    if style == "bold":
        return f'<tspan font-weight="bold">{shown}</tspan>'
    if style == "code":
        return f'<tspan font-family="{escape(MONO_FAMILY)}">{shown}</tspan>'
    if style == "link":
        return f'<tspan fill="{LINK}">{shown}</tspan>'
    return f"<tspan>{shown}</tspan>"


def _measure(text: str, style: str) -> float:
    if style == "code":
        return MONO * len(text)
    return _font().getlength(text) * (1.08 if style == "bold" else 1.0)


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    try:
        return ImageFont.truetype("DejaVuSans.ttf", SIZE)
    except OSError:
        return ImageFont.load_default(SIZE)
