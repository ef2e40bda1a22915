"""Linking an account that a bot vouches for to one's own account."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from kernelcup.app import access
from kernelcup.app.people import account_linking
from kernelcup.domain import Actor, Scope
from kernelcup.domain.answers import Identity
from kernelcup.errors import Forbidden
from kernelcup.http import auth
from kernelcup.http.api.forms import ERRORS, Done, Form
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.middleware import API
from kernelcup.http.route import ApiRoute
from kernelcup.http.throttle import throttled

router = APIRouter(prefix=API, tags=["account"], route_class=ApiRoute, responses=ERRORS)

slowly = throttled("link", 5, auth.named_identity)
"""Tries per minute and Discord account, so that codes cannot be guessed."""


class LinkIn(Form):
    """A code that a user gave to a bot."""

    code: str = Field(min_length=1, max_length=64)


class LinkedOut(BaseModel):
    """The user after linking."""

    user: str


def acting_as(request: Request, actor: Actor) -> Identity:
    """Return the identity that a bot vouches for. Raise ``Forbidden`` without one."""
    access.require(actor, Scope.SUBMIT)
    identity = getattr(request.state, "acting_as", None)
    if request.state.entry.by != "acting" or not isinstance(identity, Identity):
        raise Forbidden("Only a bot that acts for a user can do this.")
    return identity


@router.post("/link")
def link(request: Request, body: LinkIn, db: Db, actor: ActorDep, now: Now) -> LinkedOut:
    """Link the account that the bot vouches for to the account that made the code."""
    identity = acting_as(request, actor)
    slowly(request)
    return LinkedOut(user=account_linking.link(db, actor, body.code, identity, now=now).name)


@router.post("/unlink")
def unlink(request: Request, db: Db, actor: ActorDep, now: Now) -> Done:
    """Unlink the account that the bot vouches for from its user."""
    account_linking.unlink(db, actor, acting_as(request, actor), now=now)
    return Done()
