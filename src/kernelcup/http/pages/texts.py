"""Texts of others as HTML: statements in Markdown, code with its words in colours. Everything is escaped."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

from kernelcup.clean_text import plain

LARGEST_COLOURED = 100_000
"""Longer texts stay in one colour: reading their words would take a second."""

LEXERS = {".cu": "cuda", ".cuh": "cuda", ".py": "python"}


@lru_cache(maxsize=256)
def markdown(text: str) -> Markup:
    """Return a statement as HTML: no HTML of its own, no pictures, no headings above the page's."""
    reader = _reader()
    tokens = reader.parse(text)
    for each in tokens:
        if each.type in ("heading_open", "heading_close"):
            each.tag = f"h{min(int(each.tag[1:]) + 1, 6)}"
        elif each.type == "code_block":
            each.type = "fence"
        for inner in each.children or ():
            if inner.type == "link_open":
                inner.attrSet("rel", "nofollow noopener")
    return Markup(reader.renderer.render(tokens, reader.options, {}))


@lru_cache(maxsize=64)
def document(text: str) -> Markup:
    """Return a page of the documentation as HTML: headings have anchors, and links lead to other pages' HTML."""
    reader = MarkdownIt("commonmark", _OPTIONS | {"html": True}).enable("table")
    tokens = reader.parse(text)
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            title = re.sub(r"[^\w\s-]", "", token.content).strip().lower()
            before.attrSet("id", re.sub(r"[\s-]+", "-", title))
        for inner in token.children or ():
            if inner.type == "link_open" and "://" not in str(inner.attrs["href"]):
                inner.attrSet("href", re.sub(r"\.md(?=#|$)", ".html", str(inner.attrs["href"])))
    return Markup(reader.renderer.render(tokens, reader.options, {}))


@lru_cache(maxsize=256)
def code(text: str, name: str = "") -> Markup:
    """Return code whose words have classes, from the file's name or a language's."""
    return Markup('<pre class="code" tabindex="0"><code>{}</code></pre>').format(coloured(text, name))


@lru_cache(maxsize=256)
def coloured(text: str, name: str) -> Markup:
    """Return the lines of a code whose words have classes."""
    if len(text) > LARGEST_COLOURED:
        return escape(text)
    try:
        lexer = _lexer(name)
    except ClassNotFound:
        return escape(text)
    return Markup(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def _lexer(name: str) -> Any:
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    known = LEXERS.get(ending)
    if known is not None:
        return get_lexer_by_name(known, stripnl=False)
    if ending:
        return get_lexer_for_filename(name, stripnl=False)
    return get_lexer_by_name({"cu": "cuda", "triton": "python"}.get(name.lower(), name), stripnl=False)


_OPTIONS: dict[str, Any] = {"html": False, "highlight": lambda text, name, _: str(code(text, name))}


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark", _OPTIONS).enable("table").disable("image")


FILTERS = {"markdown": markdown, "code": code, "coloured": coloured, "plain": plain}
