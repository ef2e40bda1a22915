"""What is asked of every page as a browser shows it."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
WIDTHS = (360, 768, 1440)


def check_width(page: Page) -> None:
    """Fail if a page is wider than its window."""
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{page.url} scrolls sideways by {width} px"


def check_page(page: Page) -> None:
    """Fail if a page is wider than its window, or for what axe calls serious."""
    check_width(page)
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    grave = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    told = [(each["id"], [node["html"][:200] for node in each["nodes"][:5]]) for each in grave]
    assert not told, f"{page.url}: {told}"
