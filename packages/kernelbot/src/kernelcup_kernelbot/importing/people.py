"""Users with their identities, bans and the secrets of their clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.people import secret_values
from kernelcup.app.people.queries import tokens
from kernelcup.app.people.queries.users import name_key, shown_key
from kernelcup.app.people.user_names import as_account_name, as_shown_name, proposed_names
from kernelcup.domain import Scope
from kernelcup.tables import IdentityRow, TokenRow, UserRow, table_of
from kernelcup_kernelbot.importing import bulk
from kernelcup_kernelbot.importing.imported import Imported
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


def bring(source: Source, session: Session, found: Imported, now: datetime) -> None:
    """Write the users that are not here yet, and the bans and secrets that are new."""
    rows, new = _wanted(source, found), []
    known = {(each.provider, each.subject): each.user_id for each in session.scalars(sa.select(IdentityRow))}
    for row in rows:
        provider = provider_of(row.id, row.cli_auth_provider)
        if provider != row.cli_auth_provider:
            found.counts[f"guessed_{provider}"] += 1
        owners = (known.get((each, row.id)) for each in (provider, *PROVIDERS, UNKNOWN))
        if (user_id := next(filter(None, owners), None)) is None:
            new.append(row)
        else:
            found.users[row.id] = user_id
    _make(session, new, found, now)
    _ban(session, {found.users[row.id] for row in rows if row.is_banned}, found, now)
    for column in TOKENS:
        _give_tokens(session, column, rows, found, now)


def provider_of(number: str, stored: str | None) -> str:
    """Return the sign-in provider of a user: what the client stored, else by the length of the id."""
    if stored in PROVIDERS:
        return stored
    if not (number.isascii() and number.isdigit()):
        return UNKNOWN
    return "discord" if len(number) >= SHORTEST_DISCORD else "github"


def _wanted(source: Source, found: Imported) -> list[Any]:
    """Return users without registrations that were not finished, but for those that submitted."""
    number, sent = source.tables["user_info"].c.id, source.tables["submission"].c
    unfinished = number.startswith("temp_", autoescape=True) & number.not_in(sa.select(sent.user_id))
    found.counts["unfinished"] = len(source.rows("user_info", "id", where=[unfinished]))
    # Of two with one name the first keeps it.
    return source.rows("user_info", *COLUMNS, "is_banned", where=[~unfinished], order=("created_at", "id"))


def _make(session: Session, rows: Sequence[Any], found: Imported, now: datetime) -> None:
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
            found.notes["shown name -> account"].append(f"{shown!r} -> {name}")
        user = {
            "id": number,
            "name": name,
            "name_key": name_key(name),
            "created_at": moment(row.created_at, now),
        }
        users.append(user | _shown(shown, taken))
        key = {"provider": provider, "subject": row.id, "user_id": number}
        identities.append({**key, "login": shown or name, "created_at": user["created_at"]})
        found.users[row.id] = number
    bulk.insert(session, UserRow, users)
    bulk.insert(session, IdentityRow, identities)
    found.counts["users"] = len(users)


def _shown(shown: str, taken: set[str]) -> dict[str, str | None]:
    """Return how others see the user: as before, unless that is the name of an account or another's shown name."""
    wanted = as_shown_name(shown)
    key = shown_key(wanted)
    if key is None or key in taken:
        return {"shown_name": "", "shown_key": None}
    taken.add(key)
    return {"shown_name": wanted, "shown_key": key}


def _ban(session: Session, banned: set[int], found: Imported, now: datetime) -> None:
    user = table_of(UserRow).c
    new = sorted(banned - set(session.scalars(sa.select(user.id).where(user.banned_at.is_not(None)))))
    values = {"banned_at": now, "ban_reason": BAN}
    _change(session, UserRow, new, values)
    found.counts["banned"] = len(new)


def _change(session: Session, row: Any, numbers: Sequence[int], values: dict[str, object]) -> None:
    table = table_of(row)
    change = sa.update(table).where(table.c.id == sa.bindparam("number")).values(values)
    if numbers:
        session.execute(change, [{"number": each} for each in numbers])


def _give_tokens(session: Session, column: str, rows: Sequence[Any], found: Imported, now: datetime) -> None:
    """Store the hashes of the clients' secrets; one that was replaced there opens nothing here any more."""
    kind, name = TOKENS[column]
    current = {
        secret_values.hash_of(secret): found.users[row.id]
        for row in rows
        if (secret := getattr(row, column)) and (column != "cli_id" or row.cli_valid)
    }
    stored = session.execute(sa.select(TokenRow.hash, TokenRow.id, TokenRow.name, TokenRow.revoked_at)).all()
    old = [
        each.id
        for each in stored
        if each.name == name and each.revoked_at is None and each.hash not in current
    ]
    _change(session, TokenRow, old, {"revoked_at": now})
    common = {"kind": kind, "name": name, "scopes": USUAL, "created_at": now}
    new = [
        {"hash": each, "user_id": current[each]} for each in current.keys() - {each.hash for each in stored}
    ]
    bulk.insert(session, TokenRow, [each | common for each in new])
    found.counts["client_secrets"] += len(new)
