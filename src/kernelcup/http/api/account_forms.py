"""Schemas of users and tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from kernelcup.domain import Role, Scope
from kernelcup.http.api.forms import Shown


class IdentityOut(BaseModel):
    """An account at a sign-in provider."""

    provider: str = Field(examples=["github"])
    subject: str
    login: str


class UserOut(Shown):
    """A user."""

    id: int
    name: str
    role: Role
    banned_at: datetime | None
    ban_reason: str
    created_at: datetime
    identities: list[IdentityOut]


class MeOut(UserOut):
    """The user, and what the token may do."""

    scopes: Annotated[list[Scope], BeforeValidator(sorted)]
    direct_messages: bool = Field(
        description="Whether bots write to you when one of your results is overtaken or loses its rank."
    )


class TokenOut(Shown):
    """A token, without its secret."""

    id: int
    kind: str
    name: str
    scopes: Annotated[list[Scope], BeforeValidator(sorted)]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class SecretTokenOut(TokenOut):
    """A new token."""

    secret: str = Field(description="Shown only once.")
