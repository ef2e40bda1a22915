"""Joining an account that a bot vouches for with one's own."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from kernelcup.domain import Actor, Scope
from kernelcup.errors import Forbidden
from kernelcup.http import auth
from kernelcup.http.deps import ActorDep, Db, Now
from kernelcup.http.route import ApiRoute
from kernelcup.http.schemas import Done, Form
from kernelcup.http.throttle import throttled_by
from kernelcup.services import access, linking
from kernelcup.storage.identities import Identity

router = APIRouter(tags=["account"], route_class=ApiRoute)

slowly = throttled_by("link", 5, auth.named_identity)
"""Nobody guesses codes: so many tries a minute has an account at Discord."""


class LinkCodeOut(BaseModel):
    """A code to tell a bot."""

    code: str = Field(examples=["BCDF-GHJK"])
    expires_at: datetime


class LinkIn(Form):
    """A code that somebody told a bot."""

    code: str = Field(min_length=1, max_length=64)


class LinkedOut(BaseModel):
    """Who somebody is from now on."""

    user: str


def acting_as(request: Request, actor: Actor) -> Identity:
    """Return the identity that a bot vouches for. Raise ``Forbidden`` where none does."""
    access.require(actor, Scope.SUBMIT)
    identity = getattr(request.state, "acting_as", None)
    if request.state.door != auth.ACTING or not isinstance(identity, Identity):
        raise Forbidden("Only a bot that acts for somebody can do this.")
    return identity


@router.post("/me/link-codes", status_code=201)
def make_code(request: Request, db: Db, actor: ActorDep, now: Now) -> LinkCodeOut:
    """Get a code; who tells it the Discord bot with `/link` joins that account with this one."""
    auth.check_settings(request, actor)
    made = linking.make_link_code(db, actor, now=now)
    return LinkCodeOut(code=made.code, expires_at=made.expires_at)


@router.post("/link")
def link(request: Request, body: LinkIn, db: Db, actor: ActorDep, now: Now) -> LinkedOut:
    """Join the account that the bot vouches for with the account that made the code."""
    identity = acting_as(request, actor)
    slowly(request)
    return LinkedOut(user=linking.link(db, actor, body.code, identity, now=now).name)


@router.post("/unlink")
def unlink(request: Request, db: Db, actor: ActorDep, now: Now) -> Done:
    """Undo it: take the account that the bot vouches for from the user."""
    linking.unlink(db, actor, acting_as(request, actor), now=now)
    return Done()
