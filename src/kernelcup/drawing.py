"""Draw pictures with untrusted text: ellipses, the machine's fonts, no odd characters."""

from __future__ import annotations

import io
import unicodedata
from functools import cache

from PIL import Image, ImageDraw, ImageFont

FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial.ttf")
"""The first font that the machine has is used; else Pillow's own, which has only Latin letters."""

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


class Canvas:
    """A picture, drawn in units of one or more pixels."""

    def __init__(self, width: int, height: int, *, background: str, scale: int = 1) -> None:
        self._image = Image.new("RGB", (width * scale, height * scale), background)
        self._draw = ImageDraw.Draw(self._image)
        self._scale = scale

    def text(
        self,
        at: tuple[int, int],
        text: str,
        size: int,
        colour: str,
        *,
        anchor: str = "la",
        width: int | None = None,
    ) -> None:
        """Write one line, shortened with an ellipsis if it does not fit the width."""
        font = _font(size * self._scale)
        line = _fitted(_printable(text), font, None if width is None else width * self._scale)
        place = (at[0] * self._scale, at[1] * self._scale)
        self._draw.text(place, line, fill=colour, font=font, anchor=anchor)

    def box(self, edges: tuple[int, int, int, int], colour: str, *, radius: int = 0) -> None:
        """Fill a box with round corners."""
        scaled = [edge * self._scale for edge in edges]
        self._draw.rounded_rectangle(scaled, radius=radius * self._scale, fill=colour)

    def disc(self, centre: tuple[int, int], radius: int, colour: str) -> None:
        """Fill a circle."""
        x, y, r = (value * self._scale for value in (*centre, radius))
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill=colour)

    def png(self) -> bytes:
        """Return the picture as PNG."""
        buffer = io.BytesIO()
        self._image.save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


def _fitted(line: str, font: Font, width: int | None) -> str:
    if width is None or font.getlength(line) <= width:
        return line
    kept = line
    while kept and font.getlength(f"{kept}…") > width:
        kept = kept[:-1]
    return f"{kept}…"


def _printable(text: str) -> str:
    """Return one line without characters that draw nothing or change the direction of writing."""
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in text)


@cache
def _font(size: int) -> Font:
    for name in FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)
