"""Summaries of leaderboards, and the times for the plots of one leaderboard."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kernelcup.app.access import visible_boards
from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_board
from kernelcup.app.boards.queries import task_versions
from kernelcup.app.results.facts import Beside, Remembered, read_beside
from kernelcup.app.results.queries import overview as stored
from kernelcup.app.results.queries import standings
from kernelcup.app.results.standings import board_device, shows_copy
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Record, UserName
from kernelcup.engine import Database, Session, database_of

LONGEST_SUMMARY = 140
MOST_RECORDS = 1000
MOST_TIMES = 1000
MOST_USERS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSummary:
    """The summary of a ranking."""

    device: str
    entries: int = 0
    best_s: float | None = None
    """None where times do not rank."""
    best_speedup: float | None = None
    """The best score itself where a task ranks by speedup."""
    reference_s: float | None = None
    """The time of the task's reference in the best run, None if it was not measured."""
    floor_s: float | None = None
    """The least time in which that device can do the declared work: its speed of light. None if it is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardSummary:
    """The summary of a leaderboard."""

    board: Leaderboard
    summary: str
    """The beginning of the task's statement."""
    devices: tuple[DeviceSummary, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Improvements:
    """The improvements of a ranking over time."""

    records: Sequence[Record]
    """Personal bests, oldest first, at most :data:`MOST_RECORDS`."""
    before_s: float | None
    """The best time before the first record, in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserTimes:
    """All times of a user on one (leaderboard, device)."""

    user: str
    own: bool
    seconds: list[float] = field(default_factory=list)


_SUMMARIES: Remembered[str, str] = Remembered()
_ENTRIES: Remembered[tuple[int, str, int], int] = Remembered()
"""By leaderboard, device and revision: to count them takes longer than the rest of a page."""


def list_summaries(db: Database, *, viewer: Actor = OPERATOR, words: str = "") -> list[BoardSummary]:
    """Return summaries of the leaderboards that exist for the viewer, newest first; frozen ones as of the freeze.

    Args:
        viewer: The actor who looks.
        words: Return only leaderboards whose name, summary or devices contain all of these words.
    """
    with db.read() as session:
        found = visible_boards(session, viewer)
        told = _told(session, found)
        return _summaries(session, [each for each in found if _has(each, told, words)][::-1], viewer)


def show_summary(db: Database, name: str, *, viewer: Actor = OPERATOR) -> BoardSummary:
    """Return the summary of a leaderboard. Raise ``NotFound`` if it does not exist for the viewer."""
    with db.read() as session:
        return _summaries(session, [find_board(session, name, viewer)], viewer)[0]


def improvements(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> Improvements:
    """Return the improvements of a ranking that the viewer may see.

    Raises:
        NotFound, UnknownDevice: As for the standings.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name = board_device(found, device)
        records = standings.history(
            session,
            board_id=found.id,
            device=name,
            limit=MOST_RECORDS,
            until=visibility.hidden_since(found, viewer),
        )
        names = visibility.shown_names(session, found, {each.user_id: each.user for each in records}, viewer)
        before = None
        if len(records) == MOST_RECORDS:
            before = stored.best_before(session, board_id=found.id, device=name, record_id=records[-1].id)
    shown = [_renamed(each, names, viewer) for each in reversed(records)]
    return Improvements(records=shown, before_s=before)


def times_of_best(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> list[UserTimes]:
    """Return all ranked times of the users at the top of a ranking, and of the viewer.

    Raises:
        NotFound, UnknownDevice: As for the standings.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name, is_copy = board_device(found, device), shows_copy(session, found, viewer)
        top = standings.entries(session, board_id=found.id, device=name, frozen=is_copy, limit=MOST_USERS)
        users = {each.user_id: each.entry.user for each in top}
        if viewer.user_id is not None and viewer.user_id not in users:
            users[viewer.user_id] = viewer.name
        names = visibility.shown_names(session, found, users, viewer)
        times = stored.times(
            session,
            board_id=found.id,
            device=name,
            user_ids=list(users),
            until=visibility.hidden_since(found, viewer),
            limit=MOST_TIMES,
        )
    rows = {key: UserTimes(user=names[key].shown, own=key == viewer.user_id) for key in users}
    for each in times:
        rows[each.user_id].seconds.append(each.score_s)
    return [each for each in rows.values() if each.seconds]


def summary_of(description: str) -> str:
    """Return the first sentence of a statement's first paragraph without formulas, without its Markdown."""
    lines = (line.strip() for line in description.strip().splitlines())
    plain = [line for line in lines if not line.startswith(("#", "```", "|", "==", "--", "<", "!["))]
    paragraphs = re.split(r"\n{2,}", "\n".join(plain))
    first = next((each for each in paragraphs if each.strip() and not re.search(r"\$\S", each)), "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split()))
    # An underscore in the middle of a word belongs to a name.
    text = re.sub(r"[`*]{1,3}(?=\S)|(?<=\S)[`*]{1,3}|(?<=\w)_{1,3}(?!\w)|(?<!\w)_{1,3}(?=\w)", "", text)
    sentence = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    if len(sentence) <= LONGEST_SUMMARY:
        return sentence
    return sentence[:LONGEST_SUMMARY].rsplit(" ", 1)[0] + " …"


def _told(session: Session, found: Sequence[Leaderboard]) -> dict[str, str]:
    """Return the beginnings of statements, by task version."""
    return _SUMMARIES.get(
        database_of(session),
        {each.task_hash for each in found},
        lambda missing: {key: summary_of(task_versions.load(session, key).description) for key in missing},
    )


def _summaries(session: Session, found: Sequence[Leaderboard], viewer: Actor) -> list[BoardSummary]:
    copies = {each.id for each in found if shows_copy(session, each, viewer)}
    where, known = database_of(session), {}
    for frozen, ids in ((False, {each.id for each in found} - copies), (True, copies)):
        heads = stored.heads(session, ids, frozen=frozen)
        beside = read_beside(session, [each.run_id for each in heads])
        revisions = [(each.board_id, each.device, each.revision) for each in heads]
        counted = _ENTRIES.get(where, revisions, partial(stored.count_entries, session, frozen=frozen))
        entries = {(board_id, device): count for (board_id, device, _), count in counted.items()}
        for each in heads:
            key = (each.board_id, each.device)
            known[key] = _device(each, entries.get(key, 0), beside.get(each.run_id))
    told = _told(session, found)
    return [
        BoardSummary(
            board=each,
            summary=told[each.task_hash],
            devices=tuple(
                known.get((each.id, device), DeviceSummary(device=device)) for device in each.devices
            ),
        )
        for each in found
    ]


def _device(head: stored.Head, entries: int, beside: Beside | None) -> DeviceSummary:
    beside = None if head.score_s is None else beside
    return DeviceSummary(
        device=head.device,
        entries=entries,
        best_s=head.score_s,
        best_speedup=head.speedup,
        reference_s=None if beside is None else beside.reference_s,
        floor_s=None if beside is None else beside.attainable_s,
    )


def _has(board: Leaderboard, told: Mapping[str, str], words: str) -> bool:
    text = " ".join([board.name, told[board.task_hash], *board.devices]).lower()
    return all(word in text for word in words.lower().split())


def _renamed(record: Record, names: Mapping[int, UserName], viewer: Actor) -> Record:
    own = record.user_id if record.user_id == viewer.user_id else 0
    return dataclasses.replace(record, **dataclasses.asdict(names[record.user_id]), user_id=own)
