"""Announcements of an event's organiser, questions of its participants, and the answers.

What is for all becomes news of each leaderboard of the event, so that it is on their pages, in feeds, on Discord and
sent to webhooks; a question is news for the event's creator alone, an answer to one for who asked.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.events.events import EventName, find_event, find_managed_event
from kernelcup.app.events.queries import announcements as stored
from kernelcup.app.events.queries import events
from kernelcup.app.events.registration import check_registered
from kernelcup.app.news.queries import news
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.submissions.admission import check_author
from kernelcup.domain import Actor, Leaderboard, NewsKind, Scope
from kernelcup.domain.events import Event, Remark, Said
from kernelcup.engine import Database, Session
from kernelcup.errors import InvalidValue, NotFound, RateLimited

LONGEST = 2000
MOST_SHOWN = 200
MOST_OPEN = 20
"""Questions of one user that wait for an answer."""

Text = Annotated[str, Given(metavar="TEXT", longest=LONGEST, help="What to say.")]


@operation("GET", "/events/{event}/announcements", "event said", subject="events")
def list_said(db: Database, viewer: Actor, event: EventName) -> list[Said]:
    """List what was said in an event, newest first: announcements, answers to all, and your own questions.

    The organiser sees all questions. Others do not see who asked.
    """
    with db.read() as session:
        return _visible(session, find_event(session, event, viewer), viewer)


def newest(db: Database, viewer: Actor, board: Leaderboard) -> Said | None:
    """Return the newest announcement of a leaderboard's event, None without one."""
    said = list_said(db, viewer, board.event) if board.event else []
    return next((each for each in said if each.kind is Remark.ANNOUNCEMENT), None)


@operation("POST", "/events/{event}/announcements", "event announce", subject="events", status=201)
def announce(db: Database, actor: Actor, event: EventName, text: Text, *, now: datetime) -> None:
    """Announce something on the event's page and as news of its leaderboards: feeds, Discord, webhooks."""
    with db.write(durable=True) as session:
        found = find_managed_event(session, event, actor)
        number = _insert(session, found, Remark.ANNOUNCEMENT, text, actor, now=now)
        _tell(session, found, NewsKind.ANNOUNCEMENT, number, text.strip(), now)
        audit_log.record(session, actor, "event.announce", f"event:{found.name}", {"id": number}, now)


@operation("POST", "/events/{event}/questions", "event ask", subject="events", status=201, personal=True)
def ask(db: Database, actor: Actor, event: EventName, text: Text, *, now: datetime) -> None:
    """Ask the organiser of an event. Others see the question only once it is answered to all, and not who asked.

    Raises:
        RegistrationNeeded: You are not registered.
        RateLimited: Too many of your questions wait for an answer.
    """
    user_id = access.account(actor)
    with db.write(durable=True) as session:
        check_author(session, actor, lock=True)
        found = find_event(session, event, actor)
        if found.registration:
            check_registered(session, found, user_id)
        mine = _visible(session, found, actor)
        answered = {each.answer_to for each in mine}
        waiting = [each for each in mine if each.kind is Remark.QUESTION and each.id not in answered]
        if len([each for each in waiting if each.user == actor.name]) >= MOST_OPEN:
            raise RateLimited(f"{MOST_OPEN} of your questions wait for an answer.", retry_after_s=3600)
        number = _insert(session, found, Remark.QUESTION, text, actor, now=now)
        _tell(session, found, NewsKind.QUESTION, number, text.strip(), now, found.creator_id)


@operation(
    "POST", "/events/{event}/questions/{question}/answer", "event answer", subject="events", status=201
)
def answer(
    db: Database,
    actor: Actor,
    event: EventName,
    question: Annotated[int, Given(metavar="QUESTION", least=1, help="Number of the question.")],
    text: Text,
    *,
    to_all: Annotated[
        bool, Given(options=("--to-all",), help="Everyone sees question and answer, and not who asked.")
    ] = False,
    now: datetime,
) -> None:
    """Answer a question, to who asked it or to all.

    Raises:
        NotFound: There is no such question.
    """
    with db.write(durable=True) as session:
        found = find_managed_event(session, event, actor)
        asked = stored.find_question(session, found.id, question)
        if asked is None:
            raise NotFound(f"{found.name!r} has no question {question}.")
        to = None if to_all else asked.author_id
        number = _insert(session, found, Remark.ANSWER, text, actor, answer_to=asked.id, to=to, now=now)
        if to_all:
            _tell(session, found, NewsKind.ANNOUNCEMENT, number, f"{asked.text} — {text.strip()}", now)
        elif to is not None:
            _tell(session, found, NewsKind.ANSWER, number, text.strip(), now, to)


def _visible(session: Session, event: Event, viewer: Actor) -> list[Said]:
    sees_all = access.manages_event(viewer, event) and Scope.INSPECT in viewer.scopes
    return stored.every(session, event.id, reader_id=viewer.user_id, sees_all=sees_all, limit=MOST_SHOWN)


def _insert(
    session: Session,
    event: Event,
    kind: Remark,
    text: str,
    actor: Actor,
    *,
    answer_to: int | None = None,
    to: int | None = None,
    now: datetime,
) -> int:
    said = text.strip()
    if not said:
        raise InvalidValue("Expected a text.")
    return stored.insert(
        session,
        event.id,
        kind,
        said,
        author_id=actor.user_id,
        answer_to=answer_to,
        recipient_id=to,
        now=now,
    )


def _tell(
    session: Session,
    event: Event,
    kind: NewsKind,
    number: int,
    text: str,
    now: datetime,
    to: int | None = None,
) -> None:
    """Make news for all of each leaderboard, or for one user. An event without a leaderboard has its page alone."""
    what = {NewsKind.QUESTION: "a question: ", NewsKind.ANSWER: "the answer to your question: "}.get(kind, "")
    known = events.board_ids(session, event.id)
    for board_id in known if to is None else known[:1]:
        fact = news.Fact(
            key=f"{kind.value}:{number}:{board_id}",
            kind=kind,
            at=now,
            board_id=board_id,
            recipient_id=to,
            text=f"{event.shown_title}: {what}{text}",
        )
        news.add(session, fact, now)
