"""Sign-in of people in browsers, and of command lines through them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from kernelcup.app.courses import joining
from kernelcup.app.people import accounts, device_login, login_links, tokens
from kernelcup.config.sign_in import SignInProvider
from kernelcup.domain import NOBODY, Actor, Role
from kernelcup.errors import Conflict, InvalidValue, NotFound, SignInNeeded, UserError
from kernelcup.http import auth
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages import csrf
from kernelcup.http.pages.account import account_page, new_account_page
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import refuse_nul_in_form
from kernelcup.http.route import LaterRoute
from kernelcup.http.sign_in import oauth
from kernelcup.http.state import Platform
from kernelcup.http.throttle import throttled

HOME = "/auth/login"
NEXT, LINKING = "next", "linking"
NO_STORE = {"Cache-Control": "no-store"}

pages = APIRouter(route_class=LaterRoute)

OWN_FORM = (Depends(csrf.check), Depends(refuse_nul_in_form))
"""The checks of each form here, like those of ``PageRoute`` for signed-in people."""

LINK_LIMIT = Depends(throttled("link", 300))
"""A class behind one address opens its links at the same time; the secrets cannot be guessed."""

Secret = Annotated[str, Form(max_length=200)]
NextPath = Annotated[str, Query(alias="next", max_length=500)]


@pages.get(HOME)
def show_sign_in(
    request: Request, platform: PlatformDep, actor: ActorDep, next_path: NextPath = HOME
) -> Response:
    """Show the ways to sign in; signed-in people get their account page."""
    if actor.role is not Role.NOBODY:
        return account_page(request, actor)
    return _ways_in(request, platform, local_path(next_path), "")


@pages.get("/auth/login/{provider}", dependencies=[Depends(throttled("login", 30))])
async def begin_sign_in(
    provider: str,
    request: Request,
    platform: PlatformDep,
    actor: ActorDep,
    next_path: NextPath = HOME,
    link: bool = False,
) -> Response:
    """Send the browser to a provider. Linking an account requires being signed in and asking for it."""
    found = _provider(platform, provider)
    request.session.pop(LINKING, None)
    if link:
        if actor.user_id is None:
            raise SignInNeeded("Sign in first, then link another account.")
        request.session[LINKING] = actor.user_id
    request.session[NEXT] = local_path(next_path)
    redirect_uri = f"{platform.config.server.public_url}/auth/callback/{found.name}"
    return await oauth.begin(request, found, redirect_uri)


@pages.get("/auth/callback/{provider}", dependencies=[Depends(throttled("callback", 30))])
async def end_sign_in(provider: str, request: Request, platform: PlatformDep, actor: ActorDep) -> Response:
    """Receive the browser from a provider and sign the person in."""
    found = _provider(platform, provider)
    linking = request.session.pop(LINKING, None)
    next_path = local_path(str(request.session.pop(NEXT, HOME)))
    identity = await oauth.finish(request, found)
    if linking is not None and linking != actor.user_id:
        raise Conflict("You signed out, or signed in as another user, meanwhile; begin again.")
    secret = await run_in_threadpool(
        _sign_in, platform, found.name, identity, actor if linking is not None else NOBODY
    )
    return await run_in_threadpool(_enter, request, platform, secret, next_path)


@pages.get("/auth/link/{secret}", dependencies=[LINK_LIMIT])
def show_link(secret: str, request: Request, db: Db, now: Now, next_path: NextPath = "") -> Response:
    """Ask before a one-time link is used: previews of links open them too."""
    name = login_links.login_link_user(db, secret, now)
    csrf.begin_visit(request)
    next_path = local_path(next_path) if next_path else ""
    return render(
        request, "sign_in_link.html", headers=NO_STORE, name=name, secret=secret, next_path=next_path
    )


@pages.post("/auth/link/{secret}", dependencies=[LINK_LIMIT, *OWN_FORM])
def use_link(secret: str, request: Request, platform: PlatformDep, next_path: NextPath = "") -> Response:
    """Use a one-time link, and go on to where the link or the browser was going."""
    now = platform.clock()
    session = tokens.make_session(platform.db, login_links.use_login_link(platform.db, secret, now), now)
    wanted = next_path or str(request.session.pop(NEXT, ""))
    if not wanted:
        role = tokens.authenticate(platform.db, session, now=now).role
        wanted = "/admin" if role in (Role.CREATOR, Role.ADMIN) else "/"
    return _enter(request, platform, session, local_path(wanted))


@pages.post("/auth/join", dependencies=[LINK_LIMIT, *OWN_FORM])
def join_as_new(
    request: Request,
    platform: PlatformDep,
    code: Secret = "",
    name: Secret = "",
) -> Response:
    """Make an account by an invite code, where no sign-in provider makes one."""
    if platform.config.signin:
        raise SignInNeeded("Sign in first; then open your invite again.")
    now = platform.clock()
    try:
        user_id, joined = joining.join_as_new(platform.db, code, name, now=now)
    except (InvalidValue, NotFound, Conflict) as error:
        return new_account_page(request, code, name=name, problem=str(error))
    request.session.pop(NEXT, None)
    opened = (
        address("/b", *joined.leaderboards)
        if len(joined.leaderboards) == 1
        else address("/c", joined.courses[0])
    )
    return _enter(request, platform, tokens.make_session(platform.db, user_id, now), opened)


@pages.post("/auth/logout", dependencies=OWN_FORM)
def sign_out(request: Request, platform: PlatformDep) -> Response:
    """End the browser's session."""
    _end_session(request, platform)
    request.session.clear()
    answer = RedirectResponse(HOME, status_code=303)
    auth.clear_session(answer, secure=_is_secure(platform))
    return answer


@pages.get("/auth/device")
def ask_for_code(request: Request, platform: PlatformDep, actor: ActorDep) -> Response:
    """Ask for a command line's code. Links never contain the code, so that no one can send such a link."""
    if actor.role is Role.NOBODY:
        return _ways_in(request, platform, "/auth/device", "to let a command line in")
    return _code_page(request)


def _check_signed_in(actor: ActorDep) -> None:
    if actor.role is Role.NOBODY:
        raise SignInNeeded("Sign in first to let a command line in.")


@pages.post(
    "/auth/device",
    dependencies=[Depends(throttled("user_code", 20)), Depends(_check_signed_in), *OWN_FORM],
)
def decide_on_code(
    request: Request,
    db: Db,
    now: Now,
    actor: ActorDep,
    user_code: Secret,
    decision: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Show the command line that asks to be let in, then let it in or refuse it."""
    try:
        if decision in ("approve", "deny"):
            approve = decision == "approve"
            device_login.approve_device_login(db, actor, user_code, approve=approve, now=now)
            return render(request, "device_done.html", headers=NO_STORE, is_in=approve)
        pending = device_login.find_device_login(db, user_code, now)
        granted = ", ".join(sorted(pending.scopes & actor.scopes)) or "nothing"
        return render(request, "device_decide.html", headers=NO_STORE, pending=pending, granted=granted)
    except UserError as error:
        return _code_page(request, str(error))


def local_path(path: str) -> str:
    """Return a path of this service; anything else becomes the page of sign-in."""
    is_local = path.startswith("/") and not path.startswith("//")
    return path if is_local and "\\" not in path and path.isprintable() else HOME


def _ways_in(request: Request, platform: Platform, next_path: str, purpose: str) -> Response:
    providers = platform.config.signin
    if not providers and next_path != HOME:
        request.session[NEXT] = next_path  # for a sign-in link, which is opened next
    return render(
        request, "sign_in.html", headers=NO_STORE, providers=providers, next_path=next_path, purpose=purpose
    )


def _code_page(request: Request, problem: str = "") -> Response:
    return render(
        request, "device_code.html", status=400 if problem else 200, headers=NO_STORE, problem=problem
    )


def _provider(platform: Platform, name: str) -> SignInProvider:
    for each in platform.config.signin:
        if each.name == name:
            return each
    raise NotFound("This sign-in provider is not configured here.")


def _sign_in(platform: Platform, provider: str, identity: dict[str, Any], actor: Actor) -> str:
    now = platform.clock()
    user_id = accounts.sign_in(platform.db, provider=provider, **identity, now=now, actor=actor)
    return tokens.make_session(platform.db, user_id, now)


def _enter(request: Request, platform: Platform, secret: str, next_path: str) -> Response:
    """Give the browser a new session; an earlier one ends."""
    _end_session(request, platform)
    answer = RedirectResponse(next_path, status_code=303)
    auth.set_session(answer, secret, secure=_is_secure(platform))
    return answer


def _end_session(request: Request, platform: Platform) -> None:
    if earlier := request.cookies.get(auth.COOKIE):
        tokens.revoke_secret(platform.db, earlier, now=platform.clock())


def _is_secure(platform: Platform) -> bool:
    return platform.config.server.public_url.startswith("https://")
