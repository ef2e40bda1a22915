"""Tables of people: users, their identities, tokens and sign-ins."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, false, true
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class UserRow(Base):
    """A person, whichever identities they sign in with."""

    __tablename__ = "users"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = mapped_column(unique=True)
    """The folded name, so that two names cannot differ by case alone."""
    shown_name: Mapped[str] = mapped_column(default="", server_default="")
    """The name that others see instead, empty for none."""
    shown_key: Mapped[str | None] = mapped_column(unique=True)
    """That name folded, None for none: a name without it is not shown."""
    role: Mapped[str] = mapped_column(default="participant", server_default="participant")
    banned_at: Mapped[datetime | None]
    ban_reason: Mapped[str] = mapped_column(default="", server_default="")
    direct_messages: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Whether bots message them when one of their results is overtaken or loses its rank."""
    bell: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Whether the site tells them of news that concern them."""
    bell_read: Mapped[int] = mapped_column(default=0, server_default="0")
    """The number of the last news item that they have read."""
    created_at: Mapped[datetime]


class IdentityRow(Base):
    """A user's account at a sign-in provider. The provider is part of the key, since numbers collide."""

    __tablename__ = "identities"

    provider: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    """The provider's permanent id for the account, for example a number; never a name that can change."""
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    login: Mapped[str]
    """The account's name when it was last seen."""
    created_at: Mapped[datetime]


class TokenRow(Base):
    """A secret that authenticates a user. Only its hash is stored."""

    __tablename__ = "tokens"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str]
    """``api``, ``popcorn`` or ``session``."""
    name: Mapped[str]
    hash: Mapped[str] = mapped_column(unique=True)
    """SHA-256 (hex); the secrets have 256 random bits, so no slower hash is needed."""
    scopes: Mapped[str]
    """Separated by blanks."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class OneTimeCodeRow(Base):
    """A sign-in link, a code that links accounts, or a command line that waits to be signed in."""

    __tablename__ = "one_time_codes"

    hash: Mapped[str] = mapped_column(primary_key=True)
    """Of the secret that uses it up."""
    kind: Mapped[str]
    """``sign_in``, ``link`` or ``device``."""
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """Its user; of a device, the one who approved it."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    user_code: Mapped[str | None] = mapped_column(unique=True)
    """What a person types to approve a device; None for other kinds, as are the columns below."""
    client: Mapped[str | None]
    scopes: Mapped[str | None]
    polled_at: Mapped[datetime | None]
    denied: Mapped[bool] = mapped_column(default=False, server_default=false())
