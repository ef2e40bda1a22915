"""Who asks, by the headers of the existing client."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, HTTPException, Request

from kernelcup.domain import NOBODY, Actor, Role, Scope
from kernelcup.errors import SignInNeeded
from kernelcup.http.deps import Db, Now
from kernelcup.services import access, tokens

HOW = "run `kernelcup login --popcorn`, which writes it to ~/.popcorn.yaml"

CliId = Annotated[str | None, Header(alias="X-Popcorn-Cli-Id", max_length=500)]
WebId = Annotated[str | None, Header(alias="X-Web-Auth-Id", max_length=500)]
Authorization = Annotated[str | None, Header(max_length=500)]


def get_visitor(request: Request, db: Db, now: Now, cli_id: CliId = None, web_id: WebId = None) -> Actor:
    """Return who asks, ``NOBODY`` without a header. Raise ``SignInNeeded`` for a header of no use."""
    secret = cli_id or web_id
    if not secret:
        return NOBODY
    try:
        actor = tokens.authenticate(db, secret, now=now)
    except SignInNeeded as error:
        header = "X-Popcorn-Cli-Id" if cli_id else "X-Web-Auth-Id"
        raise SignInNeeded(f"Invalid or unauthorized {header}: {HOW}.") from error
    request.state.actor = actor
    return actor


Visitor = Annotated[Actor, Depends(get_visitor)]


def get_caller(visitor: Visitor) -> Actor:
    """Return who asks; somebody has to."""
    if visitor is NOBODY:
        # 400 and not 401: the existing service says it so, and clients know it.
        raise HTTPException(400, f"Missing X-Web-Auth-Id or X-Popcorn-Cli-Id header: {HOW}.")
    return visitor


def get_admin(request: Request, db: Db, now: Now, authorization: Authorization = None) -> Actor:
    """Return the admin who asks, by a token of theirs that has the scope ``admin``."""
    kind, _, secret = (authorization or "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise SignInNeeded("Missing header `Authorization: Bearer TOKEN`: set POPCORN_ADMIN_TOKEN.")
    try:
        actor = tokens.authenticate(db, secret.strip(), now=now)
    except SignInNeeded as error:
        raise SignInNeeded(
            "Invalid admin token: POPCORN_ADMIN_TOKEN has to be a token of an admin with the scope `admin`."
        ) from error
    request.state.actor = actor
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    return actor


Caller = Annotated[Actor, Depends(get_caller)]
Admin = Annotated[Actor, Depends(get_admin)]
