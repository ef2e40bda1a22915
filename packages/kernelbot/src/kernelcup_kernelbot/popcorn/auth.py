"""Authentication by the headers of the existing client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Header, HTTPException, Request
from fastapi.dependencies.models import Dependant

from kernelcup.app import access
from kernelcup.app.people import tokens
from kernelcup.domain import NOBODY, Actor, Role, Scope
from kernelcup.errors import SignInNeeded
from kernelcup.http.state import Platform

HOW = "run `kernelcup login --popcorn`, which writes it to ~/.popcorn.yaml"

CLIENT_HEADERS = ("X-Popcorn-Cli-Id", "X-Web-Auth-Id")

CliId = Annotated[str | None, Header(alias="X-Popcorn-Cli-Id", max_length=500)]
WebId = Annotated[str | None, Header(alias="X-Web-Auth-Id", max_length=500)]
Authorization = Annotated[str | None, Header(max_length=500)]


def visitor_of(request: Request) -> Actor:
    """Return the actor, ``NOBODY`` without a header. Raise ``SignInNeeded`` for an invalid header."""
    cli_id = request.headers.get("X-Popcorn-Cli-Id")
    secret = cli_id or request.headers.get("X-Web-Auth-Id")
    if not secret:
        return NOBODY
    header = "X-Popcorn-Cli-Id" if cli_id else "X-Web-Auth-Id"
    return _known(request, secret, f"Invalid or unauthorized {header}: {HOW}.")


def caller_of(request: Request) -> Actor:
    """Return the actor, who must be signed in."""
    visitor = visitor_of(request)
    if visitor is NOBODY:
        # 400 instead of 401, as in the existing service and its clients.
        raise HTTPException(400, f"Missing X-Web-Auth-Id or X-Popcorn-Cli-Id header: {HOW}.")
    return visitor


def caller_again(request: Request) -> Actor:
    """Authenticate again, as of now. Raise ``SignInNeeded`` for a token that was revoked meanwhile."""
    if hasattr(request.state, "actor"):
        del request.state.actor
    return caller_of(request)


def admin_of(request: Request) -> Actor:
    """Return the requesting admin, from a token with the scope ``admin``."""
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise SignInNeeded("Missing header `Authorization: Bearer TOKEN`: set POPCORN_ADMIN_TOKEN.")
    text = "Invalid admin token: POPCORN_ADMIN_TOKEN has to be a token of an admin with the scope `admin`."
    actor = _known(request, secret.strip(), text)
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    return actor


def _known(request: Request, secret: str, refusal: str) -> Actor:
    """Return the owner of a secret, looked up once for each request."""
    if not hasattr(request.state, "actor"):
        platform: Platform = request.app.state.platform
        try:
            request.state.actor = tokens.authenticate(platform.db, secret, now=platform.clock())
        except SignInNeeded as error:
            raise SignInNeeded(refusal) from error
    actor: Actor = request.state.actor
    return actor


def get_visitor(request: Request, cli_id: CliId = None, web_id: WebId = None) -> Actor:
    """Return the actor, ``NOBODY`` without a header."""
    del cli_id, web_id  # named for the limit of their length
    return visitor_of(request)


def get_caller(request: Request, cli_id: CliId = None, web_id: WebId = None) -> Actor:
    """Return the actor, who must be signed in."""
    del cli_id, web_id
    return caller_of(request)


def get_admin(request: Request, authorization: Authorization = None) -> Actor:
    del authorization
    return admin_of(request)


def needed_by(dependant: Dependant) -> Callable[[Request], Actor] | None:
    """Return a route's authentication dependency, None if the route is public."""
    wanted = {each.call for each in dependant.dependencies}
    if get_admin in wanted:
        return admin_of
    return caller_of if get_caller in wanted else None


Visitor = Annotated[Actor, Depends(get_visitor)]
Caller = Annotated[Actor, Depends(get_caller)]
Admin = Annotated[Actor, Depends(get_admin)]
