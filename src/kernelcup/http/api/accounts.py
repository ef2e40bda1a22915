"""The user's own account, tokens, users, and the audit log."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from kernelcup.app.people import accounts, login_links, tokens
from kernelcup.app.people.accounts import User
from kernelcup.domain import Actor, Role, Scope
from kernelcup.errors import NotFound, SignInNeeded
from kernelcup.http import auth
from kernelcup.http.api.account_forms import TokenOut, UserOut
from kernelcup.http.api.forms import Done, Form
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.route import ApiRoute

router = APIRouter(route_class=ApiRoute)

UserName = Annotated[str, Path(min_length=1, max_length=100)]
AnyRole = Literal["participant", "creator", "admin"]
HOUR = timedelta(hours=1)


class MeOut(UserOut):
    """The user, and what the token may do."""

    scopes: list[Scope]
    direct_messages: bool = Field(
        description="Whether bots write to you when one of your results is overtaken or loses its rank."
    )

    @classmethod
    def seen_by(cls, actor: Actor, user: User) -> MeOut:
        """Show a user their own account."""
        shown = UserOut.of(user).model_dump()
        return cls(**shown, scopes=sorted(actor.scopes), direct_messages=user.direct_messages)


class MePatch(Form):
    """Changes to the user's own account."""

    direct_messages: bool


class UserPatch(Form):
    """Changes to a user."""

    name: str | None = Field(default=None, min_length=1, max_length=64)
    role: AnyRole | None = None


class NewTokenOut(TokenOut):
    """A new token."""

    secret: str = Field(description="Shown only once.")


class TokenIn(Form):
    """A token to create."""

    name: str = Field(min_length=1, max_length=200, examples=["CI of my kernels"])
    scopes: list[Scope] = Field(default=[Scope.READ, Scope.SUBMIT], min_length=1, max_length=10)
    kind: Literal["api", "popcorn"] = "api"
    days: int = Field(default=180, ge=1, le=3650, description="Number of days until the token expires.")
    user: str | None = Field(default=None, max_length=100, description="The token's user; for admins.")


class SignInLinksIn(Form):
    """Sign-in links to make."""

    names: list[str] = Field(min_length=1, max_length=login_links.MOST_LINKS, examples=[["ada", "bob"]])
    create: bool = Field(default=False, description="Whether names without an account become participants.")
    hours: int = Field(
        default=login_links.LASTS // HOUR,
        ge=1,
        le=login_links.LONGEST // HOUR,
        description="How long the links work; those of creators and admins work 15 minutes.",
    )
    leaderboard: str | None = Field(
        default=None, max_length=200, description="Where a browser goes after signing in."
    )


class SignInLinkOut(BaseModel):
    """A new sign-in link."""

    user: str
    url: str = Field(description="Shown only once; it works once.")
    expires_at: datetime
    is_new_user: bool


@router.get("/me", tags=["account"])
def show_me(db: Db, actor: ActorDep) -> MeOut:
    """Show the token's user and what the token may do."""
    return MeOut.seen_by(actor, _me(db, actor))


@router.patch("/me", tags=["account"])
def change_me(body: MePatch, db: Db, actor: ActorDep) -> MeOut:
    """Set whether bots may write to you when one of your results is overtaken or loses its rank."""
    return MeOut.seen_by(actor, accounts.set_direct_messages(db, actor, body.direct_messages))


@router.delete("/me/identities/{provider}", tags=["account"])
def unlink_identity(
    provider: Annotated[str, Path(max_length=32)], request: Request, db: Db, actor: ActorDep, now: Now
) -> Done:
    """Unlink an account at a sign-in provider; the last one stays."""
    auth.check_settings(request, actor)
    subjects = [each.subject for each in _me(db, actor).identities if each.provider == provider]
    if not subjects:
        raise NotFound("You have no account of this provider linked.")
    accounts.unlink(db, actor, provider, subjects[0], now=now)
    return Done()


@router.post("/tokens", status_code=201, tags=["account"])
def create_token(body: TokenIn, request: Request, db: Db, actor: ActorDep, now: Now) -> NewTokenOut:
    """Create a token. This needs a browser session or an admin's token: other tokens cannot create tokens."""
    auth.check_settings(request, actor)
    token, secret = tokens.create_token(
        db,
        actor,
        name=body.name,
        scopes=body.scopes,
        kind=body.kind,
        now=now,
        expires_at=now + timedelta(days=body.days),
        for_user=body.user,
    )
    return NewTokenOut(**TokenOut.of(token).model_dump(), secret=secret)


@router.delete("/tokens/current", tags=["account"])
def revoke_current_token(request: Request, db: Db, actor: ActorDep, now: Now) -> Done:
    """Revoke the token that this request carries."""
    secret = auth.bearer(request)
    if actor.role is Role.NOBODY or secret is None:
        raise SignInNeeded("This request carries no token.")
    tokens.revoke_secret(db, secret, now=now)
    return Done()


@router.patch("/users/{name}", tags=["users"])
def change_user(
    name: UserName, body: UserPatch, request: Request, db: Db, actor: ActorDep, now: Now
) -> UserOut:
    """Change a user's name (your own; admins: anyone's) or role (admins only)."""
    if body.name is not None:
        auth.check_settings(request, actor)
    if body.name is None and body.role is None:
        return UserOut.of(accounts.get_user(db, actor, name))
    role = None if body.role is None else Role(body.role)
    return UserOut.of(accounts.change(db, actor, name, new_name=body.name, role=role, now=now))


@router.post("/sign-in-links", status_code=201, tags=["users"])
def make_sign_in_links(
    body: SignInLinksIn, request: Request, platform: PlatformDep, actor: ActorDep, now: Now
) -> list[SignInLinkOut]:
    """Make a one-time sign-in link for each user; earlier links of these users end. For admins."""
    auth.check_settings(request, actor)
    made = login_links.make_links(
        platform.db, actor, body.names, create=body.create, now=now, lasts=body.hours * HOUR
    )
    server = platform.config.server.public_url
    return [
        SignInLinkOut(
            user=each.user,
            url=login_links.url_of(server, each, board=body.leaderboard),
            expires_at=each.expires_at,
            is_new_user=each.is_new_user,
        )
        for each in made
    ]


def _me(db: Db, actor: Actor) -> User:
    if actor.role is Role.NOBODY:
        raise SignInNeeded("You are not signed in.")
    return accounts.get_user(db, actor, actor.name)
