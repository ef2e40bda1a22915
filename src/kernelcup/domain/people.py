"""People and programs that make requests, and their rights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """What a person may do, in ascending order of rights."""

    NOBODY = "nobody"
    """A visitor who has not signed in; no account has this role."""
    PARTICIPANT = "participant"
    CREATOR = "creator"
    """May create leaderboards, and manage their own."""
    ADMIN = "admin"


class Scope(StrEnum):
    """What a token may be used for, within the rights of its user."""

    READ = "read"
    SUBMIT = "submit"
    """Submit, cancel and delete own submissions, join boards."""
    INSPECT = "inspect"
    """See everything on the boards that the user manages: hidden cases, all code and reports, reviews."""
    MANAGE = "manage"
    """Create and change leaderboards, review results."""
    ADMIN = "admin"
    """Actions of admins; it includes all other scopes but ``act``."""
    ACT = "act"
    """Act for other users, as a bot does for users whose identity it vouches for."""


class Named:
    """What bears a user's name."""

    __slots__ = ()

    user: str
    """The account's name, or a pseudonym."""
    shown_name: str
    """The name that others see instead; empty for none."""

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.shown_name or self.user


@dataclass(frozen=True, slots=True)
class UserName(Named):
    """A user's name as a viewer may see it."""

    user: str = ""
    shown_name: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """The values of the fields of those who bear it."""
        return {"user": self.user, "shown_name": self.shown_name}


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """The person or program that makes a request, with its rights."""

    user_id: int | None
    """None for visitors and for the operator."""
    name: str
    role: Role
    scopes: frozenset[Scope]


NOBODY = Actor(user_id=None, name="nobody", role=Role.NOBODY, scopes=frozenset({Scope.READ}))

OPERATOR = Actor(user_id=None, name="operator", role=Role.ADMIN, scopes=frozenset(Scope))
"""A person who runs commands on the machine of the database, and could change it by hand anyway."""
