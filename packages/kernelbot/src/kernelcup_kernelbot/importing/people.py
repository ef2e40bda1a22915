"""Users with their identities, bans and the secrets of their clients."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.people import secret_values
from kernelcup.app.people.queries import tokens
from kernelcup.app.people.queries.users import name_key, shown_key
from kernelcup.app.people.user_names import as_account_name, as_shown_name, proposed_names
from kernelcup.domain import Scope
from kernelcup.tables import IdentityRow, TokenRow, UserRow
from kernelcup_kernelbot.importing import bulk
from kernelcup_kernelbot.importing.source import Source, moment

PROVIDERS = ("discord", "github")
UNKNOWN = "kernelbot"
"""The provider of a registration that was not finished: it keeps results, and is no way to sign in."""
SHORTEST_DISCORD = 17
"""Digits; GitHub's numbers have at most ten."""
BAN = "banned at KernelBot"
TOKENS = {"cli_id": ("popcorn", "popcorn-cli, from KernelBot"), "web_auth_id": ("api", "web, from KernelBot")}
"""Kind and name of the token by the column with its secret."""
USUAL = tokens.scope_text(frozenset({Scope.READ, Scope.SUBMIT}))
COLUMNS = ("id", "user_name", "cli_id", "cli_valid", "cli_auth_provider", "web_auth_id", "created_at")


@dataclass(kw_only=True, slots=True)
class People:
    """What became of KernelBot's users."""

    ids: dict[str, int] = field(default_factory=dict)
    """The user's number here by the id there."""
    made: int = 0
    banned: int = 0
    tokens: int = 0
    left_out: int = 0
    """Registrations that were not finished, without submissions."""
    renamed: list[tuple[str, str]] = field(default_factory=list)
    """The shown name and the account's, where they differ."""
    guessed: Counter[str] = field(default_factory=Counter)
    """How many of each provider were told by their id."""


def bring(source: Source, session: Session, now: datetime) -> People:
    """Write the users that are not here yet, and the bans and secrets that are new."""
    people = People()
    rows = list(_wanted(source, people))
    known = _known(session)
    new = []
    for row in rows:
        provider = provider_of(row.id, row.cli_auth_provider)
        if provider != row.cli_auth_provider:
            people.guessed[provider] += 1
        found = (known.get((each, row.id)) for each in (provider, *PROVIDERS, UNKNOWN))
        user_id = next((each for each in found if each is not None), None)
        if user_id is None:
            new.append(row)
        else:
            people.ids[row.id] = user_id
    _make(session, new, people, now)
    _ban(session, rows, people, now)
    _give_tokens(session, rows, people, now)
    return people


def provider_of(number: str, stored: str | None) -> str:
    """Return the sign-in provider of a user: what the client stored, else by the length of the id."""
    if stored in PROVIDERS:
        return stored
    if not (number.isascii() and number.isdigit()):
        return UNKNOWN
    return "discord" if len(number) >= SHORTEST_DISCORD else "github"


def _wanted(source: Source, people: People) -> Iterator[Any]:
    """Yield users without registrations that were not finished, but for those that submitted."""
    sent = source.tables["submission"].c.user_id
    active = set(source.execute(sa.select(sent).distinct()).scalars())
    rows = source.rows("user_info", *COLUMNS, "is_banned")
    # Of two with one name the first keeps it.
    for row in sorted(
        rows, key=lambda each: (moment(each.created_at, datetime.max.replace(tzinfo=UTC)), each.id)
    ):
        if row.id.startswith("temp_") and row.id not in active:
            people.left_out += 1
        else:
            yield row


def _known(session: Session) -> dict[tuple[str, str], int]:
    found = session.execute(sa.select(IdentityRow.provider, IdentityRow.subject, IdentityRow.user_id))
    return {(provider, subject): user_id for provider, subject, user_id in found}


def _make(session: Session, rows: Sequence[Any], people: People, now: datetime) -> None:
    taken = {key for each in session.execute(sa.select(UserRow.name_key, UserRow.shown_key)) for key in each}
    users, identities = [], []
    for row, number in zip(rows, bulk.reserve(session, UserRow, len(rows)), strict=True):
        provider, shown = provider_of(row.id, row.cli_auth_provider), (row.user_name or "").strip()
        instead = f"{provider}-{row.id[-4:]}"
        plain = re.sub("-{2,}", "-", as_account_name(shown)).strip("-")  # of emoji little is left
        proposed = proposed_names(plain or instead, instead)
        name = next(each for each in proposed if name_key(each) not in taken)
        taken.add(name_key(name))
        if name != shown:
            people.renamed.append((shown, name))
        since = moment(row.created_at, now)
        users.append(
            {"id": number, "name": name, "name_key": name_key(name), "created_at": since}
            | _shown(shown, name, taken)
        )
        key = {"provider": provider, "subject": row.id, "user_id": number}
        identities.append({**key, "login": shown or name, "created_at": since})
        people.ids[row.id] = number
    bulk.insert(session, UserRow, users)
    bulk.insert(session, IdentityRow, identities)
    people.made = len(users)


def _shown(shown: str, name: str, taken: set[str]) -> bulk.Values:
    """Return how others see the user: as before, unless that is the account's name or another user's."""
    wanted = as_shown_name(shown)
    key = shown_key(wanted)
    if key is None or key == name_key(name) or key in taken:
        return {"shown_name": "", "shown_key": None}
    taken.add(key)
    return {"shown_name": wanted, "shown_key": key}


def _ban(session: Session, rows: Sequence[Any], people: People, now: datetime) -> None:
    banned = [people.ids[row.id] for row in rows if row.is_banned]
    for part in bulk.parts(banned):
        free = (UserRow.id.in_(part), UserRow.banned_at.is_(None))
        change = sa.update(UserRow).where(*free).values(banned_at=now, ban_reason=BAN)
        people.banned += len(session.execute(change.returning(UserRow.id)).all())


def _give_tokens(session: Session, rows: Sequence[Any], people: People, now: datetime) -> None:
    """Store the hashes of the clients' secrets; one that was replaced there opens nothing here any more."""
    for column, (kind, name) in TOKENS.items():
        current = {}
        for row in rows:
            secret = getattr(row, column)
            if secret and (column != "cli_id" or row.cli_valid):
                current[secret_values.hash_of(secret)] = people.ids[row.id]
        stored = session.execute(
            sa.select(TokenRow.hash, TokenRow.id).where(TokenRow.name == name, TokenRow.revoked_at.is_(None))
        )
        old = [number for hashed, number in stored if hashed not in current]
        for part in bulk.parts(old):
            session.execute(sa.update(TokenRow).where(TokenRow.id.in_(part)).values(revoked_at=now))
        common = {"kind": kind, "name": name, "scopes": USUAL, "created_at": now}
        wanted = [{"user_id": user, "hash": hashed} | common for hashed, user in current.items()]
        people.tokens += bulk.insert_absent(session, TokenRow, wanted)
