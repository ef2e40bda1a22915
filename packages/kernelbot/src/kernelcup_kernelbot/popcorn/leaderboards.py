"""Leaderboards, their devices and their rankings, for everyone who may see them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from kernelcup.app.boards import boards
from kernelcup.app.boards.boards import VisibleTask
from kernelcup.app.results import standings, table
from kernelcup.domain import Leaderboard, RankedBy, Ruling, Standing
from kernelcup.http.dependencies import Db
from kernelcup.reporting.phrases import UNTIMED, UPPER_END, trust_text, unranked
from kernelcup_kernelbot.popcorn import forms
from kernelcup_kernelbot.popcorn.auth import Visitor
from kernelcup_kernelbot.popcorn.errors import PopcornRoute
from kernelcup_kernelbot.popcorn.submissions import check_page

router = APIRouter(route_class=PopcornRoute)

LARGEST_PAGE = 1000


@router.get("/leaderboards")
def list_all(db: Db, visitor: Visitor) -> list[dict[str, Any]]:
    """List the leaderboards that the visitor may see."""
    found = boards.list_boards(db, viewer=visitor)
    return [_board(boards.visible_task(db, board.name, visitor)) for board in found]


@router.get("/gpus/{leaderboard}")
def list_devices(leaderboard: str, db: Db, visitor: Visitor) -> list[str]:
    """List the devices of a leaderboard."""
    return list(boards.get_board(db, leaderboard, viewer=visitor).devices)


@router.get("/submissions/{leaderboard}/{gpu}")
def show_ranking(
    leaderboard: str,
    gpu: str,
    db: Db,
    visitor: Visitor,
    limit: int = LARGEST_PAGE,
    offset: int = 0,
) -> list[dict[str, Any]]:
    """Show a ranking, each user's best; behind its end, without a rank, what stands apart."""
    check_page(limit, offset, largest=LARGEST_PAGE)
    board = boards.get_board(db, leaderboard, viewer=visitor)
    found = standings.standings(db, board.name, gpu, viewer=visitor, limit=limit, offset=offset)
    device = _device(board, gpu)
    entries = [_entry(board, device, standing) for standing in found]
    if len(found) < limit:
        why = unranked(board.trust)
        apart = standings.standings_apart(db, board.name, gpu, Ruling.LEVEL, viewer=visitor)
        entries += [
            {**_entry(board, device, each), "rank": None, "note": f"{trust_text(each.trust)}; {why}"}
            for each in apart
        ]
    return entries


@router.get("/submission_count/{leaderboard}/{gpu}")
def count(
    leaderboard: str,
    gpu: str,
    db: Db,
    visitor: Visitor,
    user_id: Annotated[str | None, Query(max_length=100)] = None,
) -> dict[str, int]:
    """Count the users of a ranking, or one user's improvements."""
    if user_id is None:
        return {"count": standings.count_places(db, leaderboard, gpu, viewer=visitor)}
    found = table.history(db, leaderboard, gpu, viewer=visitor, user=user_id, limit=LARGEST_PAGE)
    return {"count": len(found)}


def _board(visible: VisibleTask) -> dict[str, Any]:
    board, task = visible.board, visible.task
    return {
        "id": board.id,
        "name": board.name,
        "deadline": forms.iso(board.deadline),
        "description": task.description,
        "gpu_types": list(board.devices),
        "creator_id": board.creator,
        "visibility": board.visibility.value,
        # Without files, seeds and hidden cases: they do not belong in a list.
        "task": {
            "lang": task.lang.value,
            "ranking_by": task.ranking_by.value,
            "multi_gpu": task.multi_gpu,
            "tests": [dict(case) for case in task.tests],
            "benchmarks": [dict(case) for case in task.benchmarks],
            "test_timeout": task.limits.test_s,
            "benchmark_timeout": task.limits.benchmark_s,
            "ranked_timeout": task.limits.ranked_s,
        },
    }


def _entry(board: Leaderboard, device: str, standing: Standing) -> dict[str, Any]:
    placed = {RankedBy.CORRECTNESS: UNTIMED, RankedBy.UPPER_END: UPPER_END}.get(standing.ranked_by, "")
    note = "; ".join(filter(None, (standing.host_class, placed)))
    return {
        "submission_id": standing.submission_id,
        "rank": standing.rank,
        "submission_name": standing.file_name,
        "submission_time": forms.iso(standing.submitted_at),
        "submission_score": standing.score_s,
        "leaderboard_name": board.name,
        "user_id": standing.user,
        "user_name": standing.user,
        "gpu_type": device,
    } | ({"note": note} if note else {})


def _device(board: Leaderboard, name: str) -> str:
    return next((each for each in board.devices if each.lower() == name.lower()), name)
