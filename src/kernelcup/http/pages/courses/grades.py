"""The grades of a course, and their rules."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kernelcup.app.courses import courses, grades
from kernelcup.domain import Actor
from kernelcup.engine.database import Database
from kernelcup.errors import InvalidValue
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.pages.admin.forms import Fields, perform, text_of
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/c", route_class=PageRoute)

OnBoard = Annotated[str, Query(max_length=200)]


@router.get("/{name}/grades")
def show_grades(name: str, request: Request, db: Db, actor: ActorDep, board: OnBoard = "") -> Response:
    """Show everybody's points, of one leaderboard with how they came about."""
    return _page(request, db, actor, name, board)


@router.get("/{name}/grades.csv")
def export_grades(name: str, db: Db, actor: ActorDep, board: OnBoard = "") -> Response:
    """Send everybody's points in the register's order, also of people who never came."""
    course = courses.show(db, actor, name)
    text = grades.as_csv(grades.grades(db, actor, name, board=board or None))
    file = "-".join(filter(None, (course.name, board, "grades")))
    told = {"Content-Disposition": f'attachment; filename="{file}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=told)


@router.post("/{name}/rules")
def set_rules(
    name: str, request: Request, db: Db, actor: ActorDep, given: Provided, fields: Fields
) -> Response:
    """Set the rules of grading, or show whose points would change."""
    board, text = text_of(fields, "board"), text_of(fields, "rules")
    try:
        done = perform(grades.set_rules, fields, given, name=name, board=board or None, text=text)
    except InvalidValue as error:
        return _page(request, db, actor, name, board, 400, problems=str(error).splitlines(), rules=text)
    return _page(request, db, actor, name, board, done=done, rules=text)


def _page(
    request: Request, db: Database, actor: Actor, name: str, board: str, status: int = 200, **told: Any
) -> Response:
    course = courses.show(db, actor, name)
    found = grades.grades(db, actor, name, board=board or None)
    names = list(dict.fromkeys(each.leaderboard for each in found))
    known: dict[str, Any] = {"problems": [], "done": None} | told
    known["inherited"] = grades.rules(db, actor, name, board=None) if board else ""
    known.setdefault("rules", grades.rules(db, actor, name, board=board or None))
    return render(
        request,
        "course_grades.html",
        status=status,
        course=course,
        board=names[0] if board and names else board,
        names=names,
        rows=[found[start : start + len(names)] for start in range(0, len(found), len(names) or 1)],
        **known,
    )
