"""The visibility of news: one rule for feeds, webhooks, the API and the bot.

A leaderboard's news are visible to everyone who sees the leaderboard, with the names of its standings.
Results after a freeze appear only once the leaderboard is unveiled, even for its managers, and a result that
waits for a review or was rejected does not appear.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_board
from kernelcup.app.boards.queries import boards
from kernelcup.app.news.queries import news
from kernelcup.app.operation import BOARD, Given, Limit, operation
from kernelcup.app.people.queries import identities, users
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Named, NewsKind, Role, Scope, UserName
from kernelcup.engine import Database, Session
from kernelcup.engine.rows import made_of
from kernelcup.reporting.phrases import score_value
from kernelcup.reporting.words import verdict_text

OF_EVENT = (NewsKind.ANNOUNCEMENT, NewsKind.QUESTION, NewsKind.ANSWER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Item(Named):
    """A news item as the viewer sees it."""

    id: int
    kind: NewsKind
    at: datetime
    leaderboard: str
    device: str
    submission: int | None
    user: str
    """The submission's author; empty if the item is not about a submission."""
    shown_name: str = ""
    score_s: float | None
    tied: bool
    """Whether others share the first place."""
    before: str
    """The previous holder of the place; empty if there was none."""
    personal: bool
    """Whether it is addressed to one user."""
    deadline: datetime | None
    text: str
    """One sentence."""
    event: str = ""
    """The event whose announcement, question or answer it is."""

    @property
    def page(self) -> tuple[str, str]:
        """The parts of the address of its page on the site."""
        if self.event:
            return "e", self.event
        return ("b", self.leaderboard) if self.submission is None else ("s", str(self.submission))


@dataclass(frozen=True, kw_only=True, slots=True)
class Addressed(Item):
    """A news item for one person, with their account at a sign-in provider."""

    subject: str
    """The account's number at the provider."""
    login: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NewsPage:
    """A part of the news."""

    items: list[Item]
    next: int | None
    """The number after which the next page begins; None at the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddressedPage:
    """News for individual people."""

    items: list[Addressed]
    newest: int
    """The number up to which the news were searched: ``after`` of the next request."""


@operation("GET", "/news", subject="news")
def show_news(
    db: Database,
    actor: Actor,
    board: Annotated[str | None, Given(key=BOARD, help="Only of this leaderboard.")] = None,
    after_id: Annotated[
        int | None, Given(key="after", help="Only news after this number; default: the newest.")
    ] = None,
    limit: Limit = 50,
) -> NewsPage:
    """Show news of the leaderboards that you may see, oldest first."""
    found = items(db, actor, board=board, after_id=after_id, limit=limit + 1)
    if after_id is None:
        return NewsPage(items=found[-limit:], next=None)
    return NewsPage(items=found[:limit], next=found[limit - 1].id if len(found) > limit else None)


def items(
    db: Database,
    viewer: Actor,
    *,
    board: str | None = None,
    after_id: int | None = None,
    limit: int = 50,
) -> list[Item]:
    """Return news, oldest first: those after a given one, else the newest.

    Args:
        board: Return only news of this leaderboard instead of all that the viewer sees.

    Raises:
        NotFound: The leaderboard does not exist for the viewer.
    """
    with db.read() as session:
        seen = (
            access.visible_boards(session, viewer) if board is None else [find_board(session, board, viewer)]
        )
        found = news.page(
            session,
            board_ids=[each.id for each in seen],
            reader_id=viewer.user_id,
            after_id=after_id,
            limit=limit,
        )
        return shown(session, found, seen, viewer)


@operation("GET", "/news/addressed", subject="news")
def addressed(
    db: Database,
    actor: Actor,
    after_id: Annotated[int | None, Given(key="after", help="None: return only the newest number.")] = None,
    provider: Annotated[str, Given(longest=50, help="The sign-in provider.")] = "discord",
    limit: Limit = 50,
) -> AddressedPage:
    """Show news addressed to single persons, for a bot that delivers them.

    People without an account there, who want no direct messages, or who no longer see the leaderboard, are left
    out.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not act for others.
    """
    access.require(actor, Scope.ACT, role=Role.ADMIN)
    with db.read() as session:
        after_id = news.newest_id(session) if after_id is None else after_id
        found = news.addressed(session, after_id=after_id, limit=limit)
        recipients = {each.recipient_id or 0 for each in found}
        known = identities.of_users(session, recipients)
        quiet = users.without_direct_messages(session, recipients)
        told = []
        for each in found:
            if each.recipient_id in quiet:
                continue
            person = _member(each.recipient_id)
            items = shown(session, [each], _seen_of(session, person, each.board_id), person)
            told += [
                Addressed(**asdict(item), subject=account.subject, login=account.login)
                for item in items
                for account in known[each.recipient_id or 0]
                if account.provider == provider
            ]
        return AddressedPage(items=told, newest=found[-1].id if found else after_id)


def for_webhook(session: Session, news_id: int) -> Item | None:
    """Return a news item as members of its leaderboard see it, None if it no longer exists."""
    found = news.find(session, news_id)
    if found is None:
        return None
    board = find_board(session, found.board, OPERATOR)
    return shown(session, [found], [board], _member(None))[0]


def _member(user_id: int | None) -> Actor:
    """Return an actor who sees a leaderboard but does not manage it."""
    return Actor(user_id=user_id, name="", role=Role.PARTICIPANT, scopes=frozenset({Scope.READ}))


def _seen_of(session: Session, person: Actor, board_id: int) -> list[Leaderboard]:
    return [
        board
        for board in boards.some(session, [board_id]).values()
        if access.sees_board(session, person, board)
    ]


def shown(
    session: Session, found: Collection[news.News], seen: Collection[Leaderboard], viewer: Actor
) -> list[Item]:
    """Return news as a viewer who sees these leaderboards sees them."""
    by_id = {board.id: board for board in seen}
    names: dict[tuple[int, int], UserName] = {}
    for board_id in {each.board_id for each in found if each.board_id in by_id}:
        of_board = [each for each in found if each.board_id == board_id]
        people = {each.user_id: each.user for each in of_board if each.user_id is not None}
        people |= {each.other_id: each.other for each in of_board if each.other_id is not None}
        shown = visibility.shown_names(session, by_id[board_id], people, viewer)
        names |= {(board_id, user_id): name for user_id, name in shown.items()}
    return [_item(each, by_id[each.board_id], names, viewer) for each in found if each.board_id in by_id]


def _item(
    found: news.News, board: Leaderboard, names: dict[tuple[int, int], UserName], viewer: Actor
) -> Item:
    user = names.get((found.board_id, found.user_id or 0), UserName())
    other = names.get((found.board_id, found.other_id or 0), UserName())
    is_own = found.recipient_id is not None and found.recipient_id == viewer.user_id
    return made_of(
        found,
        Item,
        leaderboard=found.board,
        submission=found.submission_id,
        **asdict(user),
        before=other.user,
        personal=found.recipient_id is not None,
        deadline=found.moment,
        text=found.text or _sentence(found, user.shown, "Your" if is_own else f"{other.shown}'s"),
        event=board.event if found.kind in OF_EVENT else "",
    )


def _sentence(found: news.News, user: str, whose: str) -> str:
    where = f"{found.board} on {found.device}"
    time = "" if found.score_s is None else f" with {score_value(found.score_s, found.speedup)}"
    closes = "" if found.moment is None else f"{found.moment:%Y-%m-%d %H:%M} UTC"
    match found.kind:
        case NewsKind.OPENED:
            return f"{found.board} is open" + (f" until {closes}." if closes else ".")
        case NewsKind.DEADLINE:
            return f"{found.board} closes in 24 hours, at {closes}."
        case NewsKind.FIRST_PLACE:
            return f"{user} {'shares' if found.tied else 'takes'} the first place of {where}{time}."
        case NewsKind.OVERTAKEN:
            return f"{whose} result in {where} was overtaken by {user}{time}."
        case NewsKind.RANK_LOST:
            return f"{whose} result in {where} lost its rank when the leaderboard was changed."
        case NewsKind.UNVEILED:
            return f"The standings of {found.board} are shown again, with all results."
        case NewsKind.FINAL:
            return f"{found.board} has ended: the final standings are published."
        case NewsKind.OFFICIAL if not user:
            return f"The official order of {where} is published."
        case NewsKind.OFFICIAL:
            place = "shares the first place" if found.tied else "is first"
            return f"The official order of {where} is published: {user} {place}."
        case _:
            return _bell_sentence(found, where)


def _bell_sentence(found: news.News, where: str) -> str:
    """Return what only the bell tells."""
    if found.kind is NewsKind.TASK_CHANGED:
        return f"The task of {found.board} was changed."
    again = " was judged again" if found.kind is NewsKind.REJUDGED else ""
    return f"Your #{found.submission_id} in {where}{again}: {verdict_text(found.verdict)}."
