"""The people of a course: register, members, invites."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app.courses import class_list, courses, extensions, membership
from kernelcup.domain import Actor
from kernelcup.engine.database import Database
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.admin.forms import Fields, add_form, list_of
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/c", route_class=PageRoute)

MOST_SHOWN = 500
PEOPLE = "/c/{name}/people"
Text = Annotated[str, Form(max_length=200)]


@router.get("/{name}/people")
def show_people(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Show the register and the invites."""
    return _page(request, db, actor, name)


def _with_problem(request: Request, given: Provided, problem: str) -> Response:
    return _page(request, given["db"], given["actor"], request.path_params["name"], 400, problem=problem)


add_form(router, "/{name}/people/add", membership.add_course_member, PEOPLE, page=_with_problem)
add_form(router, "/{name}/people/revoke", membership.revoke_invite, PEOPLE)


@router.post("/{name}/people/extend")
def extend(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    user: Text = "",
    days: Annotated[int, Form(ge=1, le=extensions.MOST_DAYS)] = 1,
) -> Response:
    """Give a member more time."""
    try:
        granted = extensions.extend(db, actor, name, user, days, now=now)
    except (InvalidValue, NotFound) as error:
        return _page(request, db, actor, name, 400, problem=str(error))
    return _page(request, db, actor, name, granted=granted, user=user)


@router.post("/{name}/people/remove")
def remove_member(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, user: Text = "", sure: Text = ""
) -> Response:
    """End a membership, once that was asked again."""
    if sure != "yes":
        membership.course_members(db, actor, name)  # only a manager is asked
        course = courses.show(db, actor, name)
        return render(request, "course_member_remove.html", course=course, user=user)
    membership.remove_course_member(db, actor, name, user, now=now)
    return RedirectResponse(address("/c", name, "people"), 303)


@router.post("/{name}/people/import")
def import_members(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, fields: Fields
) -> Response:
    """Import a class list; people without an account get a code each."""
    try:
        result = class_list.import_course_members(db, actor, name, list_of(fields, "csv"), now=now)
    except InvalidValue as error:
        return _page(request, db, actor, name, 400, problem=str(error))
    return _page(request, db, actor, name, imported=result)


@router.post("/{name}/people/invites")
def make_invites(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    count: Annotated[int, Form(ge=1, le=1000)] = 1,
    label: Text = "",
) -> Response:
    """Make codes, each of which lets one user in."""
    try:
        codes = membership.make_course_invites(db, actor, name, count=count, label=label, now=now).codes
    except InvalidValue as error:
        return _page(request, db, actor, name, 400, problem=str(error))
    return _page(request, db, actor, name, codes=codes)


def _page(
    request: Request, db: Database, actor: Actor, name: str, status: int = 200, **told: Any
) -> Response:
    people = membership.course_members(db, actor, name)
    known: dict[str, Any] = {"problem": "", "imported": None, "codes": [], "granted": []} | told
    return render(
        request,
        "course_people.html",
        status=status,
        headers={"Cache-Control": "no-store"},
        course=courses.show(db, actor, name),
        people=people[:MOST_SHOWN],
        invites=membership.list_course_invites(db, actor, name, limit=MOST_SHOWN),
        hidden_code=membership.HIDDEN_CODE,
        **known,
    )
