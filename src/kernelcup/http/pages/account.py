"""One's own account: ways to sign in, codes for Discord, invites, tokens."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app import personal_data
from kernelcup.app.courses import joining
from kernelcup.app.news import bell
from kernelcup.app.people import account_linking, accounts, login_links, tokens
from kernelcup.domain import Actor, Role, Scope
from kernelcup.errors import InvalidValue, SignInNeeded, UserError
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, EntryDep, Now, PlatformDep
from kernelcup.http.pages import csrf
from kernelcup.http.pages.admin.forms import add_form
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.http.state import Platform

router = APIRouter(route_class=PageRoute)

NO_STORE = {"Cache-Control": "no-store"}
DAYS = (7, 30, 180, 365)
LONGEST_DAYS = 3650

Text = Annotated[str, Form(max_length=200)]


def account_page(request: Request, actor: Actor, status: int = 200, **told: Any) -> Response:
    """Return the page of the reader's own account, with the outcome of the form that was just sent."""
    platform: Platform = request.app.state.platform
    if actor.role is Role.NOBODY:
        raise SignInNeeded("Sign in to see your account.")
    known = {"problem": "", "link_code": None, "joined": None, "sign_in_link": None} | told
    user = accounts.get_user(platform.db, actor, actor.name)
    linked = {each.provider for each in user.identities}
    return render(
        request,
        "account.html",
        status=status,
        headers=NO_STORE,
        user=user,
        bell_wanted=bell.show_bell(platform.db, actor, limit=1).wanted if actor.user_id else False,
        others=[each for each in platform.config.signin if each.name not in linked],
        **known,
    )


def new_account_page(request: Request, code: str, *, name: str = "", problem: str = "") -> Response:
    """Return the page on which an invite makes an account, where no sign-in provider makes one."""
    csrf.begin_visit(request)
    told: dict[str, Any] = {"code": code, "name": name, "problem": problem}
    return render(request, "join_new.html", status=400 if problem else 200, headers=NO_STORE, **told)


@router.get("/account")
def show_account(request: Request, actor: ActorDep) -> Response:
    """Show one's own account."""
    return account_page(request, actor)


def _with_problem(request: Request, given: Provided, problem: str) -> Response:
    return account_page(request, given["actor"], 400, problem=problem)


for _path, _call, _to, _fixed in (
    ("/account/name", accounts.change, "/account", {"role": None}),
    ("/account/shown-name", accounts.set_shown_name, "/account", {}),
    ("/account/delete", personal_data.delete_account, "/", {}),
):
    add_form(router, _path, _call, _to, page=_with_problem, of_self=True, **_fixed)
add_form(router, "/account/unlink", account_linking.unlink_identity, "/account", page=_with_problem)
add_form(router, "/tokens/{token_id}/revoke", tokens.revoke_token, "/tokens")


@router.post("/account/link-code")
def make_link_code(request: Request, db: Db, actor: ActorDep, entry: EntryDep, now: Now) -> Response:
    """Show a code to tell the Discord bot."""
    made = account_linking.make_link_code(db, actor, entry=entry, now=now)
    return account_page(request, actor, link_code=made)


@router.post("/account/sign-in-link")
def make_sign_in_link(
    request: Request, platform: PlatformDep, actor: ActorDep, entry: EntryDep, now: Now
) -> Response:
    """Show a link that signs in another browser of one's own, once."""
    server = platform.config.server.public_url
    made = login_links.make_own_link(platform.db, actor, entry=entry, now=now, server=server)
    return account_page(request, actor, sign_in_link=made)


@router.post("/account/direct-messages")
def set_direct_messages(db: Db, actor: ActorDep, wanted: Annotated[bool, Form()] = False) -> Response:
    """Say whether bots may write to oneself; a box that is not ticked is not sent."""
    accounts.set_direct_messages(db, actor, wanted)
    return RedirectResponse("/account", 303)


@router.get("/join")
def show_join(
    request: Request, actor: ActorDep, code: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Ask before an invite is accepted: previews of links open them too."""
    platform: Platform = request.app.state.platform
    if actor.role is Role.NOBODY and not platform.config.signin:
        return new_account_page(request, code)
    if actor.role is Role.NOBODY:
        raise SignInNeeded("Sign in first; then open your invite again.")
    return render(request, "join.html", headers=NO_STORE, code=code, problem="")


@router.post("/account/join")
def join(request: Request, db: Db, actor: ActorDep, now: Now, code: Text) -> Response:
    """Accept an invite."""
    try:
        joined = joining.join(db, actor, code, now=now)
    except UserError as error:
        return render(request, "join.html", status=400, headers=NO_STORE, code=code, problem=str(error))
    return account_page(request, actor, joined=joined)


@router.get("/tokens")
def show_tokens(request: Request, actor: ActorDep, now: Now) -> Response:
    """Show one's own tokens and sessions."""
    return _tokens_page(request, actor, now)


@router.post("/tokens")
def make_token(
    request: Request,
    db: Db,
    actor: ActorDep,
    entry: EntryDep,
    now: Now,
    name: Text = "",
    scope: Annotated[list[Scope], Form()] = [],  # noqa: B006 (FastAPI copies it)
    kind: Annotated[str, Form(max_length=20)] = "api",
    days: Annotated[int, Form(ge=1, le=LONGEST_DAYS)] = 180,
) -> Response:
    """Make a token and show its secret, once."""
    try:
        made = tokens.create_token(
            db, actor, name=name, scopes=scope, kind=kind, days=days, for_user=None, entry=entry, now=now
        )
    except InvalidValue as error:
        return _tokens_page(request, actor, now, 400, problem=str(error))
    return _tokens_page(request, actor, now, made=made)


def _tokens_page(request: Request, actor: Actor, now: Any, status: int = 200, **told: Any) -> Response:
    platform: Platform = request.app.state.platform
    if actor.role is Role.NOBODY:
        raise SignInNeeded("Sign in to see your tokens.")
    known = {"problem": "", "made": None} | told
    return render(
        request,
        "tokens.html",
        status=status,
        headers=NO_STORE,
        tokens=tokens.list_tokens(platform.db, actor, now=now),
        scopes=sorted(tokens.scopes_of(actor.role) & actor.scopes),
        usual=(Scope.READ, Scope.SUBMIT),
        all_days=DAYS,
        server=platform.config.server.public_url,
        **known,
    )
