"""A class: members, invites, who has come how far, results as a table for other programs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app.boards import boards, membership
from kernelcup.app.results import handed_in
from kernelcup.app.results.class_progress import as_csv, progress_of, results
from kernelcup.domain import Actor
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue, NotFound
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.admin.forms import Fields, list_of
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin/boards", route_class=PageRoute)

MOST_SHOWN = 500
Text = Annotated[str, Form(max_length=200)]


@router.get("/{name}/class")
def show_class(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Show members with their progress, and invites."""
    return _page(request, db, actor, name)


@router.get("/{name}/results.csv")
def export_results(name: str, db: Db, actor: ActorDep) -> Response:
    """Send what each member has reached on each device, also of those who have nothing yet."""
    text = as_csv(results(db, actor, name))
    board = boards.get_board(db, name, viewer=actor)
    told = {"Content-Disposition": f'attachment; filename="{board.name}-results.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=told)


@router.get("/{name}/likeness")
def show_likeness(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    least: Annotated[int, Query(ge=50, le=100)] = 80,
) -> Response:
    """Show which files of different people are alike."""
    found = handed_in.likeness(db, actor, name, least=least)
    board = boards.get_board(db, name, viewer=actor)
    return render(request, "admin/likeness.html", board=board, found=found, least=least)


@router.post("/{name}/class/members")
def add_member(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, user: Text = "", pseudonym: Text = ""
) -> Response:
    """Make a user a member, or give a member another pseudonym."""
    try:
        membership.add_member(db, actor, name, user, pseudonym=pseudonym.strip() or None, now=now)
    except (InvalidValue, Conflict, NotFound) as error:
        return _page(request, db, actor, name, 400, problem=str(error))
    return _back(name)


@router.post("/{name}/class/remove")
def remove_member(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, user: Text = "", sure: Text = ""
) -> Response:
    """End a membership, once that was asked again."""
    if sure != "yes":
        boards.check_manages(db, actor, name)
        board = boards.get_board(db, name, viewer=actor)
        return render(request, "admin/member_remove.html", board=board, user=user)
    membership.remove_member(db, actor, name, user, now=now)
    return _back(name)


@router.post("/{name}/class/import")
def import_members(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, fields: Fields
) -> Response:
    """Take in a class list; who has no account gets a code of their own."""
    try:
        result = membership.import_members(db, actor, name, list_of(fields, "csv"), now=now)
    except InvalidValue as error:
        return _page(request, db, actor, name, 400, problems=str(error).splitlines())
    return _page(request, db, actor, name, imported=result)


@router.post("/{name}/class/invites")
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
        codes = membership.make_invites(db, actor, [name], count=count, label=label, now=now).codes
    except InvalidValue as error:
        return _page(request, db, actor, name, 400, problem=str(error))
    return _page(request, db, actor, name, codes=codes)


@router.post("/{name}/class/revoke")
def revoke_invite(name: str, db: Db, actor: ActorDep, now: Now, code: Text = "") -> Response:
    """Make a code worthless; who joined with it stays a member."""
    membership.revoke_invite(db, actor, code, now=now)
    return _back(name)


def _back(name: str) -> Response:
    return RedirectResponse(address("/admin/boards", name, "class"), 303)


def _page(
    request: Request, db: Database, actor: Actor, name: str, status: int = 200, **told: Any
) -> Response:
    found = progress_of(db, actor, name)
    known: dict[str, Any] = {"problem": "", "problems": [], "imported": None, "codes": []} | told
    board = boards.get_board(db, name, viewer=actor)
    return render(
        request,
        "admin/class.html",
        status=status,
        headers={"Cache-Control": "no-store"},
        board=board,
        progress=found[:MOST_SHOWN],
        count=len(found),
        done=sum(bool(each.bests) for each in found),
        scales={
            device: TimeScale.of(each.bests[device].score_s for each in found if device in each.bests)
            for device in board.devices
        },
        invites=membership.list_invites(db, actor, name, limit=MOST_SHOWN),
        hidden_code=membership.HIDDEN_CODE,
        **known,
    )
