"""Results that wait for a person, with the evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app.results import reviews
from kernelcup.app.submissions.submissions import get_code, show_submission
from kernelcup.domain import LARGEST_ID
from kernelcup.errors import InvalidValue
from kernelcup.http.dependencies import ActorDep, Db, Now, Number
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

PER_PAGE = 50
KNOWN = ("findings", "cases", "calibration", "tags", "lines", "rejected_in_review", "same_code_as")
FIGURES = (
    ("score_ns", "Ranked by"),
    ("raw_ns", "Samples"),
    ("floor_ns", "Floor"),
)
"""Times of a case's evidence, and what columns call them."""


@router.get("/reviews")
def list_reviews(
    request: Request,
    db: Db,
    actor: ActorDep,
    board: Annotated[str, Query(max_length=200)] = "",
    decided: bool = False,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
) -> Response:
    """List the results that wait for a decision, or those that were decided."""
    found = reviews.open_reviews(
        db, actor, board or None, decided=decided, after_id=after or None, limit=PER_PAGE + 1
    )
    shown = found[:PER_PAGE]
    return render(
        request,
        "admin/reviews.html",
        reviews=shown,
        board=board,
        decided=decided,
        more=shown[-1].id if len(found) > PER_PAGE else None,
        scale=TimeScale.of(each.score_s for each in shown),
    )


@router.get("/reviews/{review_id}")
def show_review(review_id: Number, request: Request, db: Db, actor: ActorDep) -> Response:
    """Show one result with its evidence and its code."""
    return _page(request, db, actor, review_id)


@router.post("/reviews/{review_id}/decision")
def decide(
    review_id: Number,
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    decision: Annotated[str, Form(max_length=20)],
    note: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """Accept a result into the ranking, or reject it."""
    if not note.strip():
        return _page(
            request, db, actor, review_id, "Give a reason: it goes to the author and into the log.", 400
        )
    try:
        reviews.decide(db, actor, review_id, decision=decision, note=note.strip(), now=now)
    except InvalidValue as error:
        return _page(request, db, actor, review_id, str(error), 400, note)
    return RedirectResponse(f"/admin/reviews/{review_id}", 303)


@router.post("/jobs/{job_id}/quarantine")
def quarantine(
    job_id: Number,
    db: Db,
    actor: ActorDep,
    now: Now,
    reason: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Take a result out of the ranking until a reviewer decides."""
    if not reason.strip():
        raise InvalidValue("Say why the result is put aside: its author is told.")
    review = reviews.quarantine(db, actor, job_id, reason=reason.strip(), now=now)
    return RedirectResponse(f"/admin/reviews/{review.id}", 303)


def _page(
    request: Request,
    db: Db,
    actor: ActorDep,
    review_id: int,
    problem: str = "",
    status: int = 200,
    note: str = "",
) -> Response:
    review = reviews.get_review(db, actor, review_id)
    evidence = review.evidence
    cases = [each for each in _list(evidence.get("cases")) if isinstance(each, Mapping)]
    submission = show_submission(db, review.submission_id, viewer=actor)
    times = [each.get(name) for each in cases for name, _ in FIGURES]
    return render(
        request,
        "admin/review.html",
        status=status,
        review=review,
        submission=submission,
        code=get_code(db, review.submission_id, viewer=actor).text,
        findings=[each for each in _list(evidence.get("findings")) if isinstance(each, Mapping)],
        cases=cases,
        columns=[(name, words) for name, words in FIGURES if any(_time(each.get(name)) for each in cases)],
        scale=TimeScale.of(float(value or 0) / 1e9 for value in times if _time(value)),
        tags=_list(evidence.get("tags")),
        lines=_list(evidence.get("lines")),
        rejected=evidence.get("rejected_in_review"),
        rest=_rest(evidence),
        raw=[(each.get("case"), _json(each)) for each in cases],
        problem=problem,
        note=note,
    )


def _time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _rest(evidence: Mapping[str, Any]) -> str:
    """Return as JSON what has no place of its own on the page."""
    rest = {name: value for name, value in evidence.items() if name not in KNOWN or name == "calibration"}
    return _json(rest) if any(value is not None for value in rest.values()) else ""


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
