"""Texts of others as HTML: statements in Markdown, code with its words in colours. Everything is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup, escape

from kernelcup.clean_text import plain

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LARGEST_COLOURED = 100_000
"""Longer texts are shown as they are, in one colour: reading their words would take a second."""

LONGEST_FORMULA = 2000
MATHML_ATTRIBUTES = frozenset(
    "xmlns display displaystyle mathvariant stretchy fence form separator accent linethickness columnalign "
    "rowspacing columnspacing width height depth lspace rspace minsize maxsize scriptlevel".split()
)

LEXERS = {".cu": "cuda", ".cuh": "cuda", ".py": "python"}


def markdown(text: str, folder: str = "", figures: Collection[str] = ()) -> Markup:
    """Return a statement as HTML: no HTML of its own, no headings above the page's, no pictures but ``figures``.

    ``folder`` is the address below which the figures are.
    """
    return _markdown(text, folder, frozenset(figures))


@lru_cache(maxsize=256)
def _markdown(text: str, folder: str, figures: frozenset[str]) -> Markup:
    if len(text) > LARGEST_COLOURED:
        return Markup("<pre>{}</pre>").format(text)
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
            elif inner.type == "image" and inner.attrs["src"] in figures:
                inner.attrSet("src", f"{folder}/{inner.attrs['src']}")
            elif inner.type == "image":
                inner.type, inner.tag = "text", ""
    return Markup(reader.renderer.render(tokens, reader.options, {}))


def formula(latex: str, how: Mapping[str, bool]) -> Markup:
    """Return mathematics as MathML; as it is written where the converter cannot read it."""
    from latex2mathml.converter import convert_to_element

    try:
        if len(latex) > LONGEST_FORMULA:
            raise ValueError("too long")
        tree = convert_to_element(latex, display="block" if how["display_mode"] else "inline")
    # The converter has errors of its own for each mistake, and IndexError and RecursionError for others.
    except Exception:
        return Markup("<code>{}</code>").format(latex)
    for element in tree.iter():
        # It writes what stands in \text, \href, \style and \class into the page as it is.
        for name in set(element.attrib) - MATHML_ATTRIBUTES:
            del element.attrib[name]
        element.text = element.text and html.unescape(element.text)
    return Markup(ElementTree.tostring(tree, encoding="unicode"))


@lru_cache(maxsize=64)
def document(text: str) -> Markup:
    """Return a page of the documentation as HTML: headings have anchors, and links lead to other pages' HTML."""
    from markdown_it import MarkdownIt

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
    from pygments import highlight
    from pygments.formatters.html import HtmlFormatter
    from pygments.util import ClassNotFound

    if len(text) > LARGEST_COLOURED:
        return escape(text)
    try:
        lexer = _lexer(name)
    except ClassNotFound:
        return escape(text)
    return Markup(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def _lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_by_name, get_lexer_for_filename

    ending = name[name.rfind(".") :].lower() if "." in name else ""
    known = LEXERS.get(ending)
    if known is not None:
        return get_lexer_by_name(known, stripnl=False)
    if ending:
        return get_lexer_for_filename(name, stripnl=False)
    return get_lexer_by_name({"cu": "cuda", "triton": "python"}.get(name.lower(), name), stripnl=False)


def linked(text: str) -> Markup:
    """Return a text in which numbers of submissions, ``#7``, are links to their pages."""
    parts = re.split(r"#(\d{1,18})\b", text)
    link = Markup('<a href="/s/{0}">#{0}</a>')
    return Markup("").join(link.format(each) if at % 2 else escape(each) for at, each in enumerate(parts))


_OPTIONS: dict[str, Any] = {"html": False, "highlight": lambda text, name, _: str(code(text, name))}


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    reader = MarkdownIt("commonmark", _OPTIONS).enable("table")
    return reader.use(
        dollarmath_plugin, allow_space=False, allow_digits=False, allow_labels=False, renderer=formula
    )


FILTERS = {"markdown": markdown, "code": code, "coloured": coloured, "linked": linked, "plain": plain}
