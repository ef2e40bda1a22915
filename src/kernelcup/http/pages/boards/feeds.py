"""News as Atom feeds (RFC 4287), for one leaderboard or for all that the reader sees."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit
from xml.etree import ElementTree

from fastapi import APIRouter, Request
from starlette.responses import Response

from kernelcup.app.boards import boards
from kernelcup.app.news import stream
from kernelcup.app.news.stream import Item
from kernelcup.clean_text import clean_text
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.pages.figures import machine_time
from kernelcup.http.pages.rendering import PRIVATE, absolute, file_of
from kernelcup.http.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

ATOM = "http://www.w3.org/2005/Atom"
MEDIA_TYPE = "application/atom+xml; charset=utf-8"
ENTRIES = 50
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""When a feed without news was updated: something has to be said."""


@router.get("/feed.atom")
def show_all(request: Request, db: Db, actor: ActorDep) -> Response:
    """Send the news of all leaderboards that the reader sees."""
    # What an event announces is news of each of its leaderboards.
    once = {(each.kind, each.at, each.text): each for each in stream.items(db, actor, limit=ENTRIES)}
    items = list(once.values())
    return _feed(request, items, title="KernelCup", page=(), since=BEGINNING)


@router.get("/b/{name}/feed.atom")
def show_board(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Send the news of one leaderboard."""
    board = boards.get_board(db, name, viewer=actor)
    items = stream.items(db, actor, board=board.name, limit=ENTRIES)
    return _feed(
        request, items, title=f"KernelCup: {board.name}", page=("b", board.name), since=board.created_at
    )


def _feed(
    request: Request, items: Sequence[Item], *, title: str, page: tuple[str, ...], since: datetime
) -> Response:
    own = absolute(request, *page, "feed.atom")
    facts = (title, own, since, items)
    return file_of(
        request,
        MEDIA_TYPE,
        lambda: _xml(request, items, title, page, own, since),
        facts=facts,
        headers=PRIVATE,
    )


def _xml(
    request: Request, items: Sequence[Item], title: str, page: tuple[str, ...], own: str, since: datetime
) -> bytes:
    ElementTree.register_namespace("", ATOM)
    root = ElementTree.Element(f"{{{ATOM}}}feed")
    _add(root, "id", _tag(request, "feed", *page))
    _add(root, "title", title)
    _add(root, "updated", machine_time(items[-1].at if items else since))
    _add(_add(root, "author"), "name", "KernelCup")
    _add(root, "link", rel="self", type="application/atom+xml", href=own)
    _add(root, "link", rel="alternate", type="text/html", href=absolute(request, *(page or ("",))))
    for item in reversed(items):
        _entry(request, root, item)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _entry(request: Request, root: ElementTree.Element, item: Item) -> None:
    entry = _add(root, "entry")
    _add(entry, "id", _tag(request, "news", str(item.id)))
    _add(entry, "title", item.text)
    _add(entry, "updated", machine_time(item.at))
    _add(entry, "published", machine_time(item.at))
    _add(entry, "link", rel="alternate", type="text/html", href=absolute(request, *item.page))
    _add(entry, "category", term=item.kind.value)
    _add(entry, "content", item.text, type="text")


def _tag(request: Request, *parts: str) -> str:
    """Return an identifier that stays (RFC 4151)."""
    host = urlsplit(absolute(request)).hostname or "localhost"
    return f"tag:{host},2026:{'/'.join(parts)}"


def _add(parent: ElementTree.Element, name: str, text: str = "", **attributes: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, f"{{{ATOM}}}{name}", attributes)
    element.text = _plain(text) or None
    return element


def _plain(text: str) -> str:
    """Return a text without what XML cannot have."""
    return "".join(each for each in clean_text(text) if each.isprintable())
