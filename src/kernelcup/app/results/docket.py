"""The docket: the public facts of every result that was flagged or reviewed.

A leaderboard's entries are visible to everyone who sees the leaderboard. Users are named only after a
decision and while the submission exists, under their names in the standings. Figures are of public cases
only, and reviewers' notes stay private.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_board
from kernelcup.app.operation import BOARD, After, Given, Limit, operation
from kernelcup.app.results.queries import docket
from kernelcup.app.submissions.review_evidence import OTHER, WHY
from kernelcup.domain import Actor, Leaderboard, Named, UserName
from kernelcup.domain.results import RULE
from kernelcup.engine import Database, Session
from kernelcup.engine.rows import made_of

MOST_CASES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseFigures:
    """The figures of a public case, in nanoseconds."""

    case: int
    counted_ns: float | None
    floor_ns: float | None
    """The least time that this device needs for the task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(Named):
    """A flagged or reviewed result."""

    id: int
    leaderboard: str
    device: str
    submission: int | None
    """None while it waits for a decision."""
    user: str
    """Empty while it waits for a decision, and after its submission was deleted."""
    shown_name: str = ""
    score_s: float | None
    opened_at: datetime
    by_rule: bool
    """Whether a rule flagged it, rather than a person."""
    reason: str
    findings: tuple[str, ...]
    cases: tuple[CaseFigures, ...]
    """Public cases only."""
    decision: str | None
    """``released`` or ``rejected``; None while it waits for a person."""
    decided_at: datetime | None
    deleted_at: datetime | None
    """When its submission was deleted; None if it was not."""


@operation("GET", "/docket", subject="trust", is_paged=True)
def entries(
    db: Database,
    viewer: Actor,
    *,
    board: Annotated[str | None, Given(key=BOARD, help="Only of this leaderboard.")] = None,
    before_id: After = None,
    limit: Limit = 50,
) -> list[Entry]:
    """List the flagged or reviewed results of the leaderboards that you may see, newest first.

    Raises:
        NotFound: The leaderboard does not exist for the viewer.
    """
    with db.read() as session:
        seen = (
            access.visible_boards(session, viewer) if board is None else [find_board(session, board, viewer)]
        )
        by_id = {each.id: each for each in seen}
        found = docket.page(session, board_ids=list(by_id), before_id=before_id, limit=limit)
        decided = [each.review_id for each in found if each.decision is not None and each.deleted_at is None]
        proofs = docket.evidence(session, decided)
        names = _names(session, found, by_id, viewer)
    return [
        _entry(
            each,
            by_id[each.leaderboard_id],
            names.get((each.leaderboard_id, each.user_id), UserName()),
            proofs.get(each.review_id, {}),
        )
        for each in found
    ]


def _names(
    session: Session, found: Collection[docket.Reviewed], boards: Mapping[int, Leaderboard], viewer: Actor
) -> dict[tuple[int, int], UserName]:
    names = {}
    for board_id in {each.leaderboard_id for each in found}:
        people = {each.user_id: each.user for each in found if each.leaderboard_id == board_id}
        shown = visibility.shown_names(session, boards[board_id], people, viewer)
        names.update({(board_id, user_id): name for user_id, name in shown.items()})
    return names


def _entry(found: docket.Reviewed, board: Leaderboard, name: UserName, evidence: Mapping[str, Any]) -> Entry:
    is_decided, is_there = found.decision is not None, found.deleted_at is None
    by_rule = found.opened_by == RULE
    return made_of(
        found,
        Entry,
        id=found.review_id,
        leaderboard=board.name,
        submission=found.submission_id if is_decided or not is_there else None,
        **asdict(name if is_decided and is_there else UserName()),
        score_s=found.score_s if is_decided else None,
        by_rule=by_rule,
        reason=found.reason if by_rule or is_decided else "",
        findings=tuple(_findings(evidence)),
        cases=tuple(_cases(evidence)),
    )


def _findings(evidence: Mapping[str, Any]) -> list[str]:
    """Return what was found, in words without figures."""
    found = evidence.get("findings")
    codes = (
        [str(each.get("code", "")) for each in found if isinstance(each, dict)]
        if isinstance(found, list)
        else []
    )
    return list(dict.fromkeys(WHY.get(code, OTHER) for code in codes))


def _cases(evidence: Mapping[str, Any]) -> list[CaseFigures]:
    found = evidence.get("cases")
    cases = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [
        CaseFigures(
            case=int(each["case"]),
            counted_ns=_number(each.get("score_ns")),
            floor_ns=_number(each.get("floor_ns")),
        )
        for each in cases
        if each.get("hidden") is False and isinstance(each.get("case"), int)
    ][:MOST_CASES]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value else None
