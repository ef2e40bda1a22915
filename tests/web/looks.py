"""What is asked of every page as a browser shows it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
WIDTHS = (360, 768, 1440)


def words_of(html: str) -> str:
    """Return the words of a page's main part, a line each, as they are without a script."""
    main = html.partition("<main")[2].partition("</main>")[0]
    plain = re.sub(r"<(style|svg)\b.*?</\1>|<[^>]+>", "\n", f"<main{main}", flags=re.DOTALL)
    lines = (" ".join(line.split()) for line in unescape(plain).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def check_width(page: Page) -> None:
    """Fail if a page is wider than its window."""
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{page.url} scrolls sideways by {width} px"


def check_page(page: Page) -> None:
    """Fail if a page is wider than a window of any width, or for what axe calls serious, light or dark."""
    page.evaluate(AXE)
    for number, width in enumerate(WIDTHS):
        page.set_viewport_size({"width": width, "height": 900})
        check_width(page)
        if number != 1:  # narrow and light, then wide and dark
            page.emulate_media(color_scheme="dark" if number else "light")
            check_access(page)


def check_access(page: Page) -> None:
    """Fail for what axe, which the page has, calls serious."""
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    grave = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    told = [(each["id"], [node["html"][:200] for node in each["nodes"][:5]]) for each in grave]
    assert not told, f"{page.url}: {told}"
