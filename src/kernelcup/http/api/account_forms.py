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


class TokenOut(Shown):
    """A token, without its secret."""

    id: int
    kind: str
    name: str
    scopes: Annotated[list[Scope], BeforeValidator(sorted)]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
