"""Registration of popcorn-cli: at the address that is built into it, for the operator who owns that address.

The client asks for a secret, sends its person's browser to the provider, and never asks again. The secret is
all that ties the browser that comes back to the client, and a link with it can be sent to others. So the
account is linked only after its owner said yes on a page, in the browser that the provider sent.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from importlib import resources
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from jinja2 import Template
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.responses import RedirectResponse, Response

from kernelcup.app.people import accounts, device_login, secret_values, tokens
from kernelcup.app.people.queries import audit_log, one_time_codes, users
from kernelcup.app.people.queries import tokens as stored_tokens
from kernelcup.config.sign_in import SignInProvider, title_of
from kernelcup.domain import Actor, Scope
from kernelcup.errors import Banned, InvalidValue, NotFound
from kernelcup.http.dependencies import PlatformDep
from kernelcup.http.pages import csrf
from kernelcup.http.pages.rendering import environment, render
from kernelcup.http.route import LaterRoute
from kernelcup.http.sign_in import oauth
from kernelcup.http.sign_in.pages import OWN_FORM
from kernelcup.http.state import Platform
from kernelcup.http.throttle import address_of, throttled
from kernelcup_kernelbot import settings
from kernelcup_kernelbot.popcorn.errors import PopcornRoute

router = APIRouter(route_class=LaterRoute)
answers = APIRouter(route_class=PopcornRoute)

GIVEN = frozenset({Scope.READ, Scope.SUBMIT})
ASKED, PAGE = "popcorn", "/auth/link-client"
NO_STORE = {"Cache-Control": "no-store"}
KIND = "popcorn"
PROVIDERS = ("discord", "github")


class State(BaseModel):
    """What the client lets the browser carry to the provider and back."""

    model_config = ConfigDict(strict=True)

    cli_id: str
    is_reset: bool = False


def instead(platform: Platform) -> str:
    """Return what to do where the client cannot register."""
    here = platform.config.server.public_url
    return (
        "popcorn-cli registers with the server that is built into it, and this is another. Make a token at "
        f"{here}/tokens in a browser and write it to ~/.popcorn.yaml as `cli_id: TOKEN`; or install "
        "KernelCup's client with `pip install` of its wheel and run `kernelcup login --popcorn`, which writes "
        "that file."
    )


def check_offered(request: Request, platform: PlatformDep) -> None:
    """Raise if registration is off, or the request came by another address than the client's own."""
    address = urlsplit(platform.config.server.public_url).netloc
    if not settings.of(platform.config).registration or request.headers.get("host") != address:
        raise HTTPException(400, instead(platform))


Offered = Depends(check_offered)


@answers.get("/auth/init", dependencies=[Offered, Depends(throttled("device_start", 20))])
def begin(request: Request, platform: PlatformDep, provider: str = "") -> dict[str, str]:
    """Give a client the secret that it keeps; it is worth nothing until its person links it."""
    if provider not in PROVIDERS:
        raise HTTPException(400, "Invalid provider, must be 'discord' or 'github'")
    _provider(platform, provider)
    client = f"popcorn-cli, from {address_of(request)}"
    login = device_login.start_device_login(platform.db, client=client, scopes=GIVEN, now=platform.clock())
    return {"state": login.device_code}


@router.get("/auth/cli/{name}", dependencies=[Offered, Depends(throttled("callback", 30))])
async def receive(
    name: str, request: Request, platform: PlatformDep, code: str = "", state: str = ""
) -> Response:
    """Receive the browser from the provider. What it brought is kept in the browser only."""
    request.session.pop(ASKED, None)
    provider, sent = _provider(platform, name), _read(state)
    await run_in_threadpool(_waiting, platform, sent.cli_id)
    address = f"{platform.config.server.public_url}/auth/cli/{name}"
    found = await oauth.redeem(provider, code, address)
    request.session[ASKED] = [name, found["subject"], found["login"], sent.cli_id, sent.is_reset]
    return RedirectResponse(PAGE, 303)


@router.get(PAGE, dependencies=[Offered])
def ask(request: Request, platform: PlatformDep) -> Response:
    """Ask whether the client is to be linked."""
    name, _, login, cli_id, is_reset = _asked(request)
    client = _waiting(platform, cli_id)
    csrf.begin_visit(request)
    return _page(request, client=client, provider=title_of(name), login=login, is_reset=is_reset)


@router.post(PAGE, dependencies=[Offered, Depends(throttled("user_code", 20)), *OWN_FORM])
def decide(
    request: Request, platform: PlatformDep, decision: Annotated[str, Form(max_length=20)] = ""
) -> Response:
    """Link the client that this browser was asked about, or refuse it."""
    *identity, cli_id, is_reset = _asked(request)
    del request.session[ASKED]
    if decision != "link":
        with platform.db.write() as session:
            one_time_codes.take_device(session, secret_values.hash_of(cli_id))
        return _page(request, decided=False)
    _link(platform, identity, cli_id, is_reset=is_reset)
    return _page(request, decided=True, login=identity[-1])


def _link(platform: Platform, identity: list[str], cli_id: str, *, is_reset: bool) -> None:
    """Make the secret of the client a token of the account, once."""
    now = platform.clock()
    client = _waiting(platform, cli_id)
    provider, subject, login = identity
    user_id = accounts.sign_in(platform.db, provider=provider, subject=subject, login=login, now=now)
    with platform.db.write() as session:
        user = users.get(session, user_id)
        if user is None or not one_time_codes.take_device(session, secret_values.hash_of(cli_id)):
            raise _gone()
        if user.banned_at is not None:
            raise Banned("This account is banned; it cannot link a client.")
        live = stored_tokens.live(session, user_id, now=now)
        earlier = [each for each in live if each.kind == KIND]
        if is_reset:
            for each in earlier:
                stored_tokens.revoke(session, each.id, now=now)
        elif len(live) >= tokens.MOST_TOKENS:
            raise InvalidValue(f"You have {tokens.MOST_TOKENS} tokens; revoke one first, at /tokens.")
        made, _ = tokens.issue(
            session,
            user_id,
            kind=KIND,
            name=client,
            scopes=GIVEN,
            now=now,
            expires_at=now + device_login.TOKEN_LASTS,
            plain=cli_id,
        )
        itself = Actor(user_id=user_id, name=user.name, role=user.role, scopes=GIVEN)
        detail = {"token": made.id, "name": client}
        audit_log.record(session, itself, "token.create", f"user:{user.name}", detail, now)


def _waiting(platform: Platform, cli_id: str) -> str:
    """Return the description of the client that waits with this secret. Raise ``NotFound``."""
    with platform.db.read() as session:
        waiting = one_time_codes.find_polled(session, secret_values.hash_of(cli_id))
    if waiting is None or waiting.user_id is not None or waiting.denied:
        raise _gone()
    if waiting.expires_at <= platform.clock():
        raise _gone()
    return waiting.client


def _asked(request: Request) -> list[Any]:
    """Return what this browser was asked about: provider, subject, login, the client's secret, is_reset."""
    if ASKED not in request.session:
        raise _gone()
    return list(request.session[ASKED])


def _gone() -> NotFound:
    return NotFound(
        "No client waits for this: it was decided already, or 15 minutes are over. Run `popcorn register` again."
    )


def _read(state: str) -> State:
    """Return the state that a client made. Raise ``InvalidValue``."""
    try:
        padded = state + "=" * (-len(state) % 4)
        return State.model_validate(json.loads(base64.urlsafe_b64decode(padded)))
    except (ValueError, ValidationError, RecursionError):
        raise InvalidValue("Invalid state parameter: run `popcorn register` again.") from None


def _provider(platform: Platform, name: str) -> SignInProvider:
    for each in platform.config.signin:
        if each.name == name:
            return each
    raise InvalidValue(f"Sign-in with {name} is not configured here: see [signin.{name}].")


@cache
def _template() -> Template:
    text = resources.files(__package__).joinpath("link_client.html").read_text(encoding="utf-8")
    return environment().from_string(text)


def _page(request: Request, *, decided: bool | None = None, **shown: Any) -> Response:
    return render(request, _template(), headers=NO_STORE, decided=decided, **shown)


router.routes.extend(answers.routes)
