"""Users, for admins: roles, tokens and bans."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access, personal_data
from kernelcup.app.people import accounts, tokens
from kernelcup.domain import LARGEST_ID, Role, Scope
from kernelcup.errors import Conflict, InvalidValue, NotFound
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, Now, Number
from kernelcup.http.pages.admin.forms import Fields, add_form, perform
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

PER_PAGE = 50
USER = "/admin/users/{name}"
ROLES = (Role.PARTICIPANT, Role.CREATOR, Role.ADMIN)


@router.get("/users")
def list_users(
    request: Request,
    db: Db,
    actor: ActorDep,
    query: Annotated[str, Query(max_length=64)] = "",
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
) -> Response:
    """List users, also only those with a text in their name."""
    return _list(request, db, actor, query, after)


@router.post("/users")
def make_user(
    request: Request,
    db: Db,
    actor: ActorDep,
    given: Provided,
    fields: Fields,
) -> Response:
    """Make a user who has no identity yet."""
    try:
        made = perform(accounts.make_user, fields, given)
    except (InvalidValue, Conflict) as error:
        return _list(request, db, actor, problem=str(error))
    return RedirectResponse(address("/admin/users", made.name), 303)


@router.get("/users/{name}")
def show_user(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show one user."""
    return _one(request, db, actor, now, name)


def _with_problem(request: Request, given: Provided, problem: str) -> Response:
    name = request.path_params["name"]
    return _one(request, given["db"], given["actor"], given["now"], name, problem)


add_form(router, "/users/{name}/role", accounts.change, USER, page=_with_problem, new_name=None)
add_form(router, "/users/{name}/unban", accounts.unban, USER)


@router.post("/users/{name}/ban")
def ban(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    reason: Annotated[str, Form(max_length=500)] = "",
    sure: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    """Let a user read only, once that was asked again."""
    if sure != "yes":
        user = accounts.get_user(db, actor, name)
        return render(request, "admin/ban.html", user=user, reason=reason, problem="")
    try:
        user = accounts.ban(db, actor, name, reason=reason, now=now)
    except (InvalidValue, Conflict) as error:
        user = accounts.get_user(db, actor, name)
        return render(request, "admin/ban.html", status=400, user=user, reason=reason, problem=str(error))
    return RedirectResponse(address("/admin/users", user.name), 303)


@router.post("/users/{name}/delete")
def delete(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, given: Provided, fields: Fields
) -> Response:
    """Delete a user's account, once its name was typed."""
    try:
        deleted = perform(personal_data.delete_account, fields, given, name=name)
    except (InvalidValue, Conflict) as error:
        return _one(request, db, actor, now, name, str(error))
    return RedirectResponse(address("/admin/users", deleted.name), 303)


@router.post("/users/{name}/tokens/{token_id}/revoke")
def revoke_token(name: str, token_id: Number, db: Db, actor: ActorDep, now: Now) -> Response:
    """Make a token of a user useless."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if token_id not in [each.id for each in tokens.list_tokens(db, actor, now=now, for_user=name)]:
        raise NotFound(f"{name} has no token {token_id} that can be used.")
    tokens.revoke_token(db, actor, token_id, now)
    return RedirectResponse(address("/admin/users", name), 303)


def _list(
    request: Request, db: Db, actor: ActorDep, query: str = "", after: int = 0, problem: str = ""
) -> Response:
    found = accounts.list_users(db, actor, after_id=after or None, limit=PER_PAGE + 1, query=query or None)
    shown = found[:PER_PAGE]
    return render(
        request,
        "admin/users.html",
        status=400 if problem else 200,
        users=shown,
        query=query,
        more=shown[-1].id if len(found) > PER_PAGE else None,
        roles=ROLES,
        problem=problem,
    )


def _one(request: Request, db: Db, actor: ActorDep, now: Now, name: str, problem: str = "") -> Response:
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)  # one's own page is at /account: this is for admins
    user = accounts.get_user(db, actor, name)
    return render(
        request,
        "admin/user.html",
        status=400 if problem else 200,
        user=user,
        tokens=tokens.list_tokens(db, actor, now=now, for_user=user.name),
        roles=ROLES,
        problem=problem,
    )
