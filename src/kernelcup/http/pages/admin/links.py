"""Sign-in links, for admins: for one user or for a class list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.courses import class_list, membership
from kernelcup.app.people import login_links
from kernelcup.app.people.login_links import LoginLink
from kernelcup.domain import Actor, Role, Scope
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Now, PlatformDep
from kernelcup.http.pages.admin.forms import Fields, list_of, perform, text_of
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.http.state import Platform

router = APIRouter(prefix="/admin/links", route_class=PageRoute)

HOURS = (1, 24, 72)
NO_STORE = {"Cache-Control": "no-store"}
Name = Annotated[str, Query(max_length=200)]


@router.get("")
def show_links(
    request: Request, platform: PlatformDep, actor: ActorDep, now: Now, user: Name = "", board: Name = ""
) -> Response:
    """Show the links that can still be used, and the form for new ones, filled in for a user or a class."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    names = [user] if user else []
    if board:
        names = [each.user for each in membership.members(platform.db, actor, board) if each.user]
    return _page(request, platform, actor, now, text="\n".join(names), board=board)


@router.post("")
def make_links(
    request: Request, platform: PlatformDep, actor: ActorDep, now: Now, given: Provided, fields: Fields
) -> Response:
    """Make links, and show them once; on request make accounts and members of a leaderboard, too."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    sent = {name: text_of(fields, name) for name in ("board", "create")}
    sent["text"] = text = list_of(fields, "list")
    try:
        made = _make(given, fields, sent)
    except (InvalidValue, NotFound) as error:
        return _page(request, platform, actor, now, 400, problems=str(error).splitlines(), **sent)
    problems = []
    if board := sent["board"]:
        try:
            class_list.import_members(platform.db, actor, board, class_list.class_of(text), now=now)
        except InvalidValue as error:  # the links are there, and shown only now
            problems = str(error).splitlines()
    return _page(request, platform, actor, now, made=made, board=board, problems=problems)


@router.post("/revoke")
def revoke_links(
    platform: PlatformDep, actor: ActorDep, now: Now, user: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """Make the open links of a user useless."""
    login_links.revoke_links(platform.db, actor, user, now=now)
    return RedirectResponse("/admin/links", 303)


def _make(given: Provided, fields: FormData, sent: Mapping[str, str]) -> list[LoginLink]:
    hours = text_of(fields, "hours") or str(HOURS[1])
    if hours not in map(str, HOURS):
        raise InvalidValue(f"Hours {hours!r}: expected one of {', '.join(map(str, HOURS))}.")
    if sent["board"]:
        boards.check_manages(given["db"], given["actor"], sent["board"])
    names = class_list.names_in(sent["text"])
    made: list[LoginLink] = perform(
        login_links.make_links, fields, given, names=names, hours=int(hours), board=sent["board"] or None
    )
    return made


def _page(
    request: Request, platform: Platform, actor: Actor, now: Now, status: int = 200, **told: Any
) -> Response:
    known: dict[str, Any] = {"problems": [], "made": [], "text": "", "board": "", "create": ""} | told
    found = boards.list_boards(platform.db, viewer=actor)
    return render(
        request,
        "admin/links.html",
        status=status,
        headers=NO_STORE,
        links=login_links.open_links(platform.db, actor, now=now),
        boards=[each.name for each in found if each.visibility.value == "closed"],
        all_hours=HOURS,
        usual_hours=HOURS[1],
        **known,
    )
