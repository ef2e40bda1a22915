"""Courses and their leaderboards."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.courses import courses, grades
from kernelcup.domain import Actor, Leaderboard
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue, NotFound, SignInNeeded
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.admin.forms import Fields, text_of
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

BoardName = Annotated[str, Form(max_length=200)]
PROBLEMS = (Conflict, InvalidValue, NotFound)


@router.get("/c")
def show_courses(request: Request, db: Db, actor: ActorDep) -> Response:
    """Show the reader's courses, and to creators the form for a new one."""
    return _list_page(request, db, actor)


@router.post("/c")
def create(request: Request, db: Db, actor: ActorDep, now: Now, fields: Fields) -> Response:
    """Create a course."""
    chosen = [str(each) for each in fields.getlist("boards")]
    try:
        made = courses.create(db, actor, text_of(fields, "name"), chosen, now=now)
    except PROBLEMS as error:
        return _list_page(request, db, actor, 400, problem=str(error))
    return RedirectResponse(address("/c", made.name, "people"), 303)


@router.get("/c/{name}")
def show_course(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show a course to its members and managers."""
    return _page(request, db, actor, name, now)


@router.post("/c/{name}/add")
def add_board(name: str, request: Request, db: Db, actor: ActorDep, now: Now, board: BoardName) -> Response:
    """Add a leaderboard."""
    try:
        courses.add_board(db, actor, name, board, now=now)
    except PROBLEMS as error:
        return _page(request, db, actor, name, now, 400, problem=str(error))
    return RedirectResponse(address("/c", name), 303)


@router.post("/c/{name}/remove")
def remove_board(name: str, db: Db, actor: ActorDep, now: Now, board: BoardName) -> Response:
    """Take a leaderboard out."""
    courses.remove_board(db, actor, name, board, now=now)
    return RedirectResponse(address("/c", name), 303)


@router.post("/admin/boards/{name}/course")
def open_course(name: str, db: Db, actor: ActorDep, now: Now) -> Response:
    """Open the people of a leaderboard's course; a leaderboard without one gets its own."""
    return RedirectResponse(address("/c", courses.open_for(db, actor, name, now=now), "people"), 303)


def _list_page(
    request: Request, db: Database, actor: Actor, status: int = 200, problem: str = ""
) -> Response:
    if actor.user_id is None:
        raise SignInNeeded("Sign in first: a course is shown to its members.")
    found = courses.list_courses(db, actor)
    free = _free(db, actor)
    return render(request, "courses.html", status=status, courses=found, free=free, problem=problem)


def _page(
    request: Request,
    db: Database,
    actor: Actor,
    name: str,
    now: datetime,
    status: int = 200,
    problem: str = "",
) -> Response:
    course = courses.show(db, actor, name)
    return render(
        request,
        "course.html",
        status=status,
        course=course,
        boards=[boards.get_board(db, each, viewer=actor) for each in course.leaderboards],
        free=_free(db, actor) if course.managed else [],
        grades=grades.grades(db, actor, name) if course.managed else grades.own_grades(db, actor, name),
        rules={
            each: grades.rules(db, actor, name, board=each or None)
            for each in (() if course.managed else ("", *course.leaderboards))
        },
        problem=problem,
        now=now,
    )


def _free(db: Database, actor: Actor) -> list[Leaderboard]:
    """Return the leaderboards that may join a course of the actor."""
    found = boards.list_boards(db, actor)
    return [each for each in found if each.course is None and access.manages_board(actor, each)]
