"""Measure two submissions in turns on one device, to find out which is faster.

A user with a place may compare a submission of their own with any result that ranks: they learn its times
and never its code, which is the second side and is copied nowhere. A comparison is a submission of its own,
made by the actor with the first one's code: it is queued, watched, cancelled and deleted like any other,
counts as practice for limits, and never ranks. Like practice it leaves out hidden cases: otherwise any code
could be tried on them, past the limits of ranked submissions.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import emulated_of, find_board
from kernelcup.app.operation import Given, OnDevice, operation
from kernelcup.app.queue.queries import comparisons
from kernelcup.app.results import duels
from kernelcup.app.results.final_order import by_scores
from kernelcup.app.results.queries import ruling, runs, standings
from kernelcup.app.results.standings import board_device, shows_copy
from kernelcup.app.rules import pauses
from kernelcup.app.rules.limits import check_limits
from kernelcup.app.submissions import admission
from kernelcup.app.submissions.queries import submissions
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import Actor, Device, JobState, Leaderboard, Ruling, Run, Submission
from kernelcup.engine import Database, Session
from kernelcup.errors import Forbidden, InvalidValue, NotFound
from kernelcup.reporting.phrases import binaries_text, duel_sentence
from kernelcup_harness.protocol import (
    DuelResult,
    DuelVerdict,
    HarnessKind,
    Mode,
    Parameters,
    RunReport,
    StageName,
    Verdict,
)

LARGEST = 2**31 - 1
"""The largest number of a submission that is compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedCase:
    """A public case of a comparison."""

    index: int
    parameters: Parameters
    first_ns: float | None
    """The time of the first submission by its own result, in nanoseconds; None if it has none."""
    second_ns: float | None
    ratio: float | None
    """The time of the first over that of the second, measured in turns: the median of the blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two submissions on one device, and which is faster."""

    id: int
    """Also the number of the submission that stands for it: follow, cancel or delete it there."""
    leaderboard: str
    device: str
    first: int | None
    """None if it was deleted."""
    second: int | None
    state: JobState
    verdict: Verdict | None
    """The verdict on the first submission's code; there is a result if it is ``accepted``."""
    duel: DuelResult | None
    """Times of the first divided by times of the second: block by block, ``ratio``, and its 98 % interval."""
    sentence: str
    """The result in words; empty while there is none."""
    cases: tuple[ComparedCase, ...] = ()
    """The public cases, once there is a result."""


@operation("POST", "/compare", subject="comparisons", status=201, location="/compare", tool="compare")
def start(
    db: Database,
    actor: Actor,
    first: Annotated[int, Given(least=1, most=LARGEST, help="A submission.")],
    second: Annotated[int, Given(least=1, most=LARGEST, help="Another one of the same leaderboard.")],
    *,
    device: OnDevice = None,
    now: datetime,
    known_devices: Sequence[Device] | None = None,
) -> Comparison:
    """Measure a submission of yours and another one in turns; managers of the leaderboard may choose any two.

    The other one is yours as well, or any result that ranks, once you have a place yourself; yours is then the
    first of the two, and no code of the other is shown. It waits in the queue like an unranked run. Follow it as
    the submission with the same number.

    Raises:
        NotFound: One of them does not exist for the actor.
        Forbidden: One of them belongs to another user and does not rank, or the actor has no place themselves.
        InvalidValue: They are of different leaderboards, are the same, or cannot be compared.
        DeviceNeeded, UnknownDevice, Paused, NotOpenYet, DeadlinePassed, RateLimited: As for any submission.
    """
    user_id = access.account(actor)
    with db.write(durable=True) as session:
        _, board = _find(session, actor, first)
        submissions.share_board(session, board.name)
        admission.check_author(session, actor, lock=True)
        submissions.keep(session, [first, second])
        # Read again: a submission or the leaderboard may have changed while we waited for the locks.
        one, board = _find(session, actor, first)
        other, _ = _find(session, actor, second)
        _check_pair(board, one, other)
        chosen = _device(session, board, device, actor, now=now)
        if emulated_of([chosen], known_devices):
            raise InvalidValue(f"{chosen} is an emulated device, which has no times to compare.")
        check_limits(session, board, [chosen], person=actor, mode=Mode.BENCHMARK, now=now, lock=True)
        one, other = _in_order(session, actor, board, chosen, one, other)
        made, _ = duels.queue(
            session, board=board, user_id=user_id, first=one.id, second=other.id, device=chosen, now=now
        )
    return show(db, made, viewer=actor)


@operation("GET", "/compare/{comparison_id}", subject="comparisons", tool="comparison")
def show(
    db: Database,
    comparison_id: Annotated[int, Given(least=1, help="Number of the comparison.")],
    *,
    viewer: Actor,
) -> Comparison:
    """Show a comparison that you requested, or one of a leaderboard that you manage.

    Raises:
        NotFound: No comparison of that number exists for the viewer.
        Forbidden: It belongs to another user.
    """
    with db.read() as session:
        found = comparisons.of_submission(session, comparison_id)
    if found is None:
        raise NotFound(f"There is no comparison {comparison_id}.")
    job_id, pair = found
    view = show_submission(db, comparison_id, viewer=viewer)
    (each,) = [each for each in view.jobs if each.id == job_id]
    duel = each.report.duel if each.report is not None else None
    if duel is not None and duel.verdict == DuelVerdict.NOT_HELD:
        duel = _by_scores(db, pair.first_id, pair.second_id, each.device, duel)
    return Comparison(
        id=comparison_id,
        leaderboard=view.leaderboard,
        device=each.device,
        first=pair.first_id,
        second=pair.second_id,
        state=each.state,
        verdict=each.verdict,
        duel=duel,
        sentence=_sentence(pair, duel, each.report),
        cases=() if each.counted is None else tuple(_cases(db, each.counted, pair, each.device, viewer)),
    )


def _sentence(pair: comparisons.Pair, duel: DuelResult | None, report: RunReport | None) -> str:
    if duel is None or report is None:
        return ""
    names = _name(pair.first_id), _name(pair.second_id)
    return f"{duel_sentence(duel, *names)} {binaries_text(report.binaries, *names)}".strip()


def _cases(
    db: Database, run: Run, pair: comparisons.Pair, device: str, viewer: Actor
) -> Iterator[ComparedCase]:
    """Yield the public cases of a comparison with the times that the viewer may see of both."""
    stage, duel = run.report.stage_report(StageName.RANKED), run.report.duel
    public = [each for each in stage.cases if not each.hidden] if stage is not None else []
    first, second = (
        _times(db, number, device, run.task_hash, viewer) for number in (pair.first_id, pair.second_id)
    )
    blocks = duel.cases if duel is not None and len(duel.cases) == len(public) else [[]] * len(public)
    for case, ratios in zip(public, blocks, strict=True):
        yield ComparedCase(
            index=case.index,
            parameters=case.parameters,
            first_ns=first.get(case.index),
            second_ns=second.get(case.index),
            ratio=statistics.median(ratios) if ratios else None,
        )


def _times(
    db: Database, submission_id: int | None, device: str, task_hash: str, viewer: Actor
) -> Mapping[int, float]:
    """Return the times of a submission's public cases against a version of the task, in nanoseconds."""
    if submission_id is None:
        return {}
    with suppress(NotFound, Forbidden):
        view = show_submission(db, submission_id, viewer=viewer)
        found = [each.counted for each in view.jobs if each.device == device and each.counted is not None]
        stages = [
            each.report.stage_report(name)
            for each in found
            for name in (StageName.RANKED, StageName.BENCHMARK)
        ]
        stage = next((each for each in stages if each is not None), None)
        if stage is not None and found[0].task_hash == task_hash:
            timed = [each for each in stage.cases if each.timing is not None and not each.hidden]
            return {each.index: each.timing.score_ns for each in timed if each.timing is not None}
    return {}


def _by_scores(
    db: Database, first: int | None, second: int | None, device: str, duel: DuelResult
) -> DuelResult:
    """Return what the stored scores of two submissions say, which could not be measured in turns."""
    if first is None or second is None:
        return duel
    with db.read() as session:
        scores = runs.scores(session, [first, second], device)
    return by_scores(scores.get(first), scores.get(second), duel)


def _find(session: Session, actor: Actor, submission_id: int) -> tuple[Submission, Leaderboard]:
    """Return a submission that the actor may look at, and its leaderboard."""
    submission = submissions.find(session, submission_id)
    board = None if submission is None else find_board(session, submission.leaderboard)
    if submission is None or board is None or not access.sees_board(session, actor, board):
        raise NotFound(f"There is no submission {submission_id}.")
    is_own = actor.user_id == submission.user_id or access.inspects_board(actor, board)
    if not is_own and submission.mode is not Mode.LEADERBOARD:
        raise Forbidden(f"Submission {submission_id} belongs to another user, and is not ranked.")
    return submission, board


def _in_order(
    session: Session, actor: Actor, board: Leaderboard, device: str, one: Submission, other: Submission
) -> tuple[Submission, Submission]:
    """Return the two with the actor's own first: its code is copied. Raise ``Forbidden`` for a pair that may not be."""
    if access.inspects_board(actor, board) or one.user_id == other.user_id == actor.user_id:
        return one, other
    own, rival = (one, other) if one.user_id == actor.user_id else (other, one)
    if own.user_id != actor.user_id:
        raise Forbidden(f"#{one.id} and #{other.id} belong to another user: one of the two has to be yours.")
    places = partial(
        standings.stands,
        session,
        board_id=board.id,
        device=device,
        frozen=shows_copy(session, board, actor),
    )
    if not places(submission_id=rival.id):
        raise Forbidden(
            f"Submission {rival.id} belongs to another user, and has no place on {device}: of others only "
            "results that rank can be compared."
        )
    is_practice = ruling.of_submissions(session, [own.id], device)[own.id] is Ruling.PRACTICE
    if not is_practice and not places(user_id=actor.user_id):
        raise Forbidden(
            f"You have no place on {device} yet: rank a result there, then compare it with others."
        )
    return own, rival


def _check_pair(board: Leaderboard, one: Submission, other: Submission) -> None:
    if one.leaderboard_id != other.leaderboard_id:
        raise InvalidValue(f"#{one.id} and #{other.id} belong to different leaderboards.")
    if one.id == other.id:
        raise InvalidValue(f"#{one.id} cannot be compared with itself.")
    if board.harness is not HarnessKind.STANDARD:
        raise InvalidValue(
            f"Leaderboard {board.name!r} is judged by its own harness, which measures one at a time."
        )


def _device(session: Session, board: Leaderboard, device: str | None, actor: Actor, *, now: datetime) -> str:
    """Return the device in the leaderboard's spelling. Raise if nothing may be submitted there now."""
    chosen = board_device(board, device)
    stops = pauses.look(session)
    stops.check_service()
    stops.check_board(board)
    stops.check_devices([chosen])
    admission.check_open(session, board, person=actor, mode=Mode.BENCHMARK, now=now)
    return chosen


def _name(submission_id: int | None) -> str:
    return "a deleted submission" if submission_id is None else f"#{submission_id}"
