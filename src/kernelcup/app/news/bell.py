"""The bell: what concerns one person, from the news, and what of it they have not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.news import stream
from kernelcup.app.news.queries import news
from kernelcup.app.news.stream import Item
from kernelcup.app.operation import Given, Limit, operation
from kernelcup.domain import Actor, Scope
from kernelcup.engine import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class Bell:
    """What concerns a user, newest first."""

    items: list[Item]
    read: int
    """The number of the last item that they had read."""
    unread: int
    """The number of items since then, at most 100."""
    wanted: bool
    """Whether the site tells them of new ones."""


@operation("GET", "/bell", "account bell", subject="news", personal=True)
def show_bell(db: Database, actor: Actor, *, limit: Limit = 50) -> Bell:
    """Show what concerns you: results that were judged or overtaken, changed tasks, announcements, answers.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
    """
    user_id = access.account(actor, Scope.READ)
    with db.read() as session:
        seen = access.visible_boards(session, actor)
        ids = [each.id for each in seen]
        state = news.bell_state(session, user_id)
        found = news.bell_items(session, user_id, board_ids=ids, limit=limit)
        return Bell(
            items=stream.shown(session, found, seen, actor),
            read=state.read,
            unread=news.bell_count(session, user_id, board_ids=ids, after_id=state.read),
            wanted=state.wanted,
        )


@operation("POST", "/bell/read", subject="news", personal=True)
def read_bell(
    db: Database,
    actor: Actor,
    until: Annotated[
        int | None, Given(least=0, help="The last item that was read; default: the newest.")
    ] = None,
) -> None:
    """Mark what concerns you as read.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
    """
    user_id = access.account(actor)
    with db.write() as session:
        newest = news.newest_id(session)
        news.set_bell_read(session, user_id, newest if until is None else min(until, newest))


@operation("PUT", "/bell", subject="news", personal=True)
def set_bell(
    db: Database, actor: Actor, wanted: Annotated[bool, Given(help="Whether the site tells you of news.")]
) -> None:
    """Set whether the site tells you of news as they come.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
    """
    user_id = access.account(actor)
    with db.write() as session:
        news.set_bell_wanted(session, user_id, wanted)


def unread(db: Database, actor: Actor) -> int | None:
    """Return how much of the bell a user has not read, None for one who does without it."""
    user_id = access.account(actor, Scope.READ)
    with db.read() as session:
        state = news.bell_state(session, user_id)
        if not state.wanted:
            return None
        ids = [each.id for each in access.visible_boards(session, actor)]
        return news.bell_count(session, user_id, board_ids=ids, after_id=state.read)


def concerned(db: Database, after_id: int | None) -> tuple[int, dict[int | None, int]]:
    """Return the newest number, and for each user whom news after another number concern, that of the latest.

    Under None is that of the latest that concerns all of a leaderboard's people.
    """
    with db.read() as session:
        newest = news.newest_id(session)
        return newest, {} if after_id is None else news.concerned(session, after_id=after_id)
