"""Finals: after the deadline of a leaderboard its best meet in duels, which decide about the official order.

A duel of a final is a comparison that belongs to the leaderboard's creator, with the hidden cases, and it waits in the
queue like any other. The transaction that stores its result also queues the next duel or stores the official order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from kernelcup import scoring
from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_board, find_managed
from kernelcup.app.boards.queries import boards, late_exceptions, task_versions
from kernelcup.app.operation import Board, Given, OnDevice, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.results import duels, news
from kernelcup.app.results.final_order import decide
from kernelcup.app.results.queries import finals as stored
from kernelcup.app.results.queries import ruling
from kernelcup.app.results.queries import standings as ranking
from kernelcup.app.results.standings import board_device
from kernelcup.app.results.stored import Stored
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import (
    ASIDE,
    OPEN,
    OPERATOR,
    Actor,
    Final,
    FinalPlace,
    Leaderboard,
    RankedBy,
    Ruling,
    UserName,
)
from kernelcup.engine import Database, Session
from kernelcup.engine.rows import made_of
from kernelcup.errors import Conflict, InvalidValue, LeaderboardOpen, NotFound
from kernelcup.reporting.finals import in_words
from kernelcup_harness.protocol import HarnessKind, TrustLevel

TOP = 10
FEWEST, MOST = 2, 30
"""Contestants of a final. With 30 there are 435 possible duels to divide the error over."""
ERROR = 0.02
"""In this share of finals, at most, an interval misses."""


@operation("POST", "/leaderboards/{name}/final", subject="finals", status=201)
def start(
    db: Database,
    actor: Actor,
    board: Board,
    *,
    device: OnDevice = None,
    top: Annotated[
        int,
        Given(
            least=FEWEST,
            most=MOST,
            help="How many of the best take part; so do results that share the rank of the last one.",
        ),
    ] = TOP,
    again: Annotated[bool, Given(help="Hold another final, whose order replaces that of the last.")] = False,
    now: datetime,
) -> Final:
    """After the deadline have the best of a leaderboard meet in duels, which decide about the official order.

    Duels wait in the queue one after the other. A final that has stopped, because its duel was deleted, goes on.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor does not manage the leaderboard.
        DeviceNeeded, UnknownDevice: It has several devices, or not this one.
        LeaderboardOpen: It is not closed.
        Conflict: Ranked submissions are still being judged, a final is under way, there is an official order already,
            or classes of machines rank for themselves.
        InvalidValue: It is judged by its own harness, has fewer than two results, or times on the device do not rank.
    """
    if not FEWEST <= top <= MOST:
        raise InvalidValue(f"top {top}: expected {FEWEST} to {MOST}.")
    with db.write(durable=True) as session:
        boards.lock(session, board)
        found = find_managed(session, board, actor)
        name = board_device(found, device)
        last = stored.newest(session, board_id=found.id, device=name)
        if last is None or (last.ended_at is not None and again):
            _check(session, found, name, now=now)
            final_id = _begin(session, actor, found, name, top, now=now)
        elif last.ended_at is None and _waiting(stored.held(session, last.id)) is None:
            final_id = last.id
        else:
            raise _held_already(found, last)
        _go_on(session, final_id, now=now)
    with db.read() as session:
        return _shown(session, found, stored.find(session, final_id), actor)


@operation("GET", "/leaderboards/{name}/final", subject="finals")
def get_final(db: Database, actor: Actor, board: Board, *, device: OnDevice = None, now: datetime) -> Final:
    """Show the newest final of a leaderboard; there is none while a freeze hides the standings."""
    found = show(db, board, device, viewer=actor, now=now)
    if found is None:
        raise NotFound(f"Leaderboard {board!r} has had no final.")
    return found


def show(
    db: Database, board: str, device: str | None = None, *, viewer: Actor = OPERATOR, now: datetime
) -> Final | None:
    """Return the newest final of one (leaderboard, device), None if there is none or the freeze hides it.

    A freeze hides what is decided after it, and nothing while it is still to come.

    Raises:
        NotFound, DeviceNeeded, UnknownDevice: As for the standings.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name = board_device(found, device)
        since = visibility.hidden_since(found, viewer)
        last = stored.newest(session, board_id=found.id, device=name)
        if last is None or (since is not None and since < (last.ended_at or now)):
            return None
        return _shown(session, found, last, viewer)


def go_on(session: Session, stored: Stored) -> None:
    """Take the next decision of a final after the result of one of its duels."""
    if stored.is_comparison:
        go_on_after(session, stored.job.id, now=stored.now)


def go_on_after(session: Session, job_id: int, *, now: datetime) -> None:
    """Take the next decision of a final, in the transaction that ends one of its duels."""
    found = stored.of_job(session, job_id)
    if found is not None:
        _go_on(session, found[0], now=now)


def _held_already(board: Leaderboard, last: stored.StoredFinal) -> Conflict:
    if last.ended_at is None:
        state, then = f"holds its final on {last.device} since {last.started_at:%Y-%m-%d %H:%M}", ""
    else:
        state, then = f"has had its final on {last.device}, on {last.ended_at:%Y-%m-%d %H:%M}", " --again"
    told = Conflict(f"Leaderboard {board.name!r} {state} UTC.")
    does = "holds another one" if then else "shows how far it is"
    told.add_note(f"kernelcup board final {board.name} --gpu {last.device}{then}   ({does})")
    return told


def _check(session: Session, board: Leaderboard, device: str, *, now: datetime) -> None:
    """Raise if a leaderboard cannot have a final on a device, or not yet."""
    if board.harness is not HarnessKind.STANDARD:
        raise InvalidValue(
            f"Leaderboard {board.name!r} is judged by its own harness, which measures one at a time."
        )
    if task_versions.load(session, board.task_hash).partial:
        raise InvalidValue("The task has `partial`: entries that fail in a case cannot be measured in turns.")
    _check_closed(session, board, now=now)
    if unjudged := stored.count_unjudged(session, board_id=board.id, device=device):
        many = "submission is" if unjudged == 1 else "submissions are"
        told = Conflict(f"{unjudged} ranked {many} still being judged on {device}.")
        told.add_note("try again when they are done: kernelcup submissions list")
        raise told


def _check_closed(session: Session, board: Leaderboard, *, now: datetime) -> None:
    late = late_exceptions.latest(session, board.id)
    closed = board.phase(now) == "closed"
    if closed and (late is None or late < now):
        return
    if board.deadline is None:
        state = "has no deadline"
    elif not closed:
        state = f"closes at {board.deadline:%Y-%m-%d %H:%M} UTC"
    else:
        state = f"takes late submissions until {late:%Y-%m-%d %H:%M} UTC"
    told = LeaderboardOpen(f"Leaderboard {board.name!r} {state}: its final comes after that.")
    told.add_note(f"kernelcup admin close {board.name}   (closes it now)")
    raise told


def _begin(
    session: Session, actor: Actor, board: Leaderboard, device: str, top: int, *, now: datetime
) -> int:
    classes = ranking.classes(session, board_id=board.id, device=device)
    if len(classes) > 1:
        raise Conflict(
            f"Results on {device} are from {len(classes)} classes of machines, which rank for themselves: have all of "
            "them judged again on machines of one class, or show that the classes agree."
        )
    entries = [each.entry for each in ranking.entries(session, board_id=board.id, device=device, limit=MOST)]
    ranks = list(scoring.band_heads(each.placed for each in entries))
    if len(entries) < FEWEST:
        raise InvalidValue(
            f"A final needs at least two ranked results; {board.name!r} has fewer on {device}."
        )
    if entries[0].ranked_by is RankedBy.CORRECTNESS:
        raise InvalidValue(
            f"Times on {device} do not rank, so that all correct results share the first place."
        )
    last = ranks[min(top, len(ranks)) - 1]
    contestants = [
        stored.Finalist(
            submission_id=each.submission_id,
            rank=rank,
            **{name: getattr(each.score, name) for name in ("score_s", "speedup", "low_s", "high_s")},
            in_turns=each.trust != TrustLevel.WALL_CLOCK,
        )
        for each, rank in zip(entries, ranks, strict=True)
        if rank <= last
    ]
    detail = {"device": device, "submissions": [each.submission_id for each in contestants]}
    audit_log.record(session, actor, "board.final", f"board:{board.name}", detail, now)
    return stored.insert(
        session,
        board_id=board.id,
        device=device,
        contestants=contestants,
        error=ERROR,
        started_by=actor.name,
        now=now,
    )


def _go_on(session: Session, final_id: int, *, now: datetime) -> None:
    """Queue the next duel of a final, or store its outcome.

    Locks are taken in the order of a deletion: the job that ends, the leaderboard, the submissions.
    """
    board_id = stored.find(session, final_id).leaderboard_id
    board = boards.some(session, {board_id})[board_id]
    submissions.share_board(session, board.name)
    final = stored.lock(session, final_id)
    held = stored.held(session, final_id)
    if final.ended_at is not None or any(each.state in OPEN for each in held):
        return
    submissions.keep(session, [each.submission_id for each in final.contestants])
    found = decide(_present(session, final), held, final.error)
    if found.due is None:
        stored.end(session, final_id, stored.Outcome(places=found.places, meetings=found.meetings), now)
        if not news.is_frozen(board, now):
            news.note_order(session, stored.find(session, final_id), now)
        return
    due = found.due
    if final.device not in board.devices:
        return
    submissions.find_author(session, board.creator_id, lock=True)
    _, job_id = duels.queue(
        session,
        board=board,
        user_id=board.creator_id,
        first=due.first_id,
        second=due.second_id,
        device=final.device,
        client="final",
        now=now,
    )
    stored.insert_duel(
        session, final_id, job_id=job_id, first_id=due.first_id, second_id=due.second_id, error=due.error
    )


def _present(session: Session, final: stored.StoredFinal) -> list[stored.Finalist]:
    """Return the contestants that were not deleted, and whose results were not put aside."""
    rulings = ruling.of_submissions(session, [each.submission_id for each in final.contestants], final.device)
    lost = (Ruling.GONE, *ASIDE)
    return [each for each in final.contestants if rulings[each.submission_id] not in lost]


def _shown(session: Session, board: Leaderboard, final: stored.StoredFinal, viewer: Actor) -> Final:
    held = stored.held(session, final.id) if final.outcome is None else []
    outcome = final.outcome
    meetings = (
        decide(_present(session, final), held, final.error).meetings if outcome is None else outcome.meetings
    )
    placed = [] if outcome is None else [each.submission_id for each in outcome.places]
    rulings = ruling.of_submissions(session, placed, final.device)
    void = [each for each in placed if rulings[each] in ASIDE]
    shown = made_of(
        final,
        Final,
        leaderboard=board.name,
        entries=len(final.contestants),
        places=[] if outcome is None else _places(session, board, final, outcome, void, viewer),
        meetings=meetings,
        void=void,
        waiting=_waiting(held),
        sentence="",
    )
    return in_words(shown)


def _waiting(held: Sequence[stored.Held]) -> int | None:
    return next((each.comparison_id for each in held if each.state in OPEN), None)


def _places(
    session: Session,
    board: Leaderboard,
    final: stored.StoredFinal,
    outcome: stored.Outcome,
    void: Sequence[int],
    viewer: Actor,
) -> list[FinalPlace]:
    """Return the places of the order; behind a result that was put aside each moves up."""
    aside = [each.place for each in outcome.places if each.submission_id in void]
    left = [each for each in outcome.places if each.submission_id not in void]
    its = {each.submission_id: each for each in final.contestants}
    sent = {each.submission_id: submissions.find(session, each.submission_id) for each in left}
    names = {each.user_id: each.user for each in sent.values() if each is not None}
    shown = visibility.shown_names(session, board, names, viewer)
    places = [each.place for each in left]
    found = []
    for each in left:
        submission = sent[each.submission_id]
        found.append(
            made_of(
                its[each.submission_id],
                FinalPlace,
                place=each.place - sum(place < each.place for place in aside),
                tied=places.count(each.place) > 1,
                **asdict(UserName() if submission is None else shown[submission.user_id]),
                submission=each.submission_id,
            )
        )
    return found
