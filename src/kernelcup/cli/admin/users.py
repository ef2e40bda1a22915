"""``kernelcup admin user``, ``admin token`` and ``admin audit``, with this machine's database or a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.options import JsonOption, LimitOption, UserArgument
from kernelcup.cli.show.plain_text import plain
from kernelcup.client.requests import given, path_of, reader
from kernelcup.domain import OPERATOR, Role, Scope
from kernelcup.errors import InvalidValue

if TYPE_CHECKING:
    from kernelcup.app.people.accounts import User
    from kernelcup.app.people.audit_log import AuditEntry
    from kernelcup.app.people.tokens import Token
    from kernelcup.client.api import Api
    from kernelcup.engine.database import Database

user = typer.Typer(help="Create, list and change users.", no_args_is_help=True)
token = typer.Typer(help="Create, list and revoke tokens.", no_args_is_help=True)

RoleText = "participant, creator or admin"


@user.command("list")
@with_backend
def list_users(
    backend: Backend,
    query: Annotated[str | None, typer.Option("--query", help="Only names that contain this text.")] = None,
    after: Annotated[
        int | None, typer.Option("--after", help="Only users with an id above this one.")
    ] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List users."""
    from kernelcup.app.people import accounts

    found = backend.ask(
        lambda db: accounts.list_users(db, OPERATOR, after_id=after, limit=limit, query=query),
        lambda api: api.pages(
            reader(accounts.User),
            "/users",
            given(query=query),
            limit=limit,
            after=after,
        ),
    )
    if as_json:
        typer.echo(json.dumps({"users": [user_object(each) for each in found]}))
        return
    show_users(found)


def show_users(found: Sequence[User]) -> None:
    """Print users as a table."""
    from kernelcup.cli.show import tables, terminal

    table = tables.new_table("id", "name", "role", "signs in as", "banned", right=("id",))
    for each in found:
        values = (each.id, each.name, each.role.value, logins(each), each.ban_reason)
        table.add_row(*map(tables.cell, values))
    tables.print_table(terminal.console(), "", table, drop=("signs in as",))


def logins(each: User) -> str:
    """Return a user's accounts at other sites."""
    return ", ".join(f"{known.provider}: {known.login}" for known in each.identities)


@user.command("add")
@with_backend
def add(
    backend: Backend,
    name: UserArgument,
    role: Annotated[str, typer.Option("--role", help=RoleText + ".")] = "participant",
    as_json: JsonOption = False,
) -> None:
    """Create a user who signs in with links and tokens."""
    from kernelcup.app.people import accounts

    wanted = read_role(role)
    made = backend.ask(
        lambda db: accounts.make_user(db, OPERATOR, name, role=wanted, now=_now()),
        lambda api: api.ask(
            reader(accounts.User), "POST", "/users", json={"name": name, "role": wanted.value}
        ),
    )
    _tell(made, as_json=as_json)
    if not as_json:
        typer.echo(f"Next: kernelcup admin user link {made.name}{backend.option}")


@user.command("role")
@with_backend
def change_role(
    backend: Backend,
    name: UserArgument,
    role: Annotated[str, typer.Argument(metavar="ROLE", help=RoleText + ".")],
    as_json: JsonOption = False,
) -> None:
    """Change a user's role. Tokens lose at once the scopes that the new role does not allow."""
    from kernelcup.app.people import accounts

    wanted = read_role(role)
    changed = backend.ask(
        lambda db: accounts.set_role(db, OPERATOR, name, wanted, now=_now()),
        lambda api: api.ask(
            reader(accounts.User), "PATCH", path_of("users", name), json={"role": wanted.value}
        ),
    )
    _tell(changed, as_json=as_json)


@user.command("ban")
@with_backend
def ban(
    backend: Backend,
    name: UserArgument,
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown to the user.")],
    as_json: JsonOption = False,
) -> None:
    """Ban a user: the user can still read, and nothing else."""
    from kernelcup.app.people import accounts

    banned = backend.ask(
        lambda db: accounts.ban(db, OPERATOR, name, reason=reason, now=_now()),
        lambda api: api.ask(
            reader(accounts.User), "POST", path_of("users", name, "ban"), json={"reason": reason}
        ),
    )
    _tell(banned, as_json=as_json)


@user.command("unban")
@with_backend
def unban(backend: Backend, name: UserArgument, as_json: JsonOption = False) -> None:
    """Lift a ban."""
    from kernelcup.app.people import accounts

    freed = backend.ask(
        lambda db: accounts.unban(db, OPERATOR, name, now=_now()),
        lambda api: api.ask(reader(accounts.User), "DELETE", path_of("users", name, "ban")),
    )
    _tell(freed, as_json=as_json)


@token.command("create")
@with_backend
def create_token(
    backend: Backend,
    name: UserArgument,
    label: Annotated[str, typer.Option("--name", help="What the token is for.")] = "made by the operator",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            help="read, submit, inspect, manage, admin, act; default: all that the role allows except act.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=3650, help="Number of days until the token expires.")
    ] = 180,
    as_json: JsonOption = False,
) -> None:
    """Create a token for a user and print its secret, which is shown only once."""
    wanted = read_scopes(scope) if scope else None
    made, secret = backend.ask(
        lambda db: _token_here(db, name, label, wanted, days),
        lambda api: _token_there(api, name, label, wanted, days),
    )
    if as_json:
        typer.echo(json.dumps({**token_object(made), "secret": secret}))
        return
    typer.echo(f"{describe_token(made)}\nThis is shown only once:", err=True)
    typer.echo(secret)


@token.command("list")
@with_backend
def list_tokens(backend: Backend, name: UserArgument, as_json: JsonOption = False) -> None:
    """List a user's usable tokens, including browser sessions."""
    from kernelcup.app.people import tokens

    found = backend.ask(
        lambda db: tokens.list_tokens(db, OPERATOR, now=_now(), for_user=name),
        lambda api: api.ask(
            lambda body: [token_of(each) for each in body], "GET", "/tokens", params={"user": name}
        ),
    )
    if as_json:
        typer.echo(json.dumps({"tokens": [token_object(each) for each in found]}))
        return
    for each in found:
        typer.echo(describe_token(each))


@token.command("revoke")
@with_backend
def revoke_token(
    backend: Backend,
    token_id: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="Number of the token.")],
    as_json: JsonOption = False,
) -> None:
    """Revoke a token."""
    from kernelcup.app.people import tokens

    backend.ask(
        lambda db: tokens.revoke_token(db, OPERATOR, token_id, _now()),
        lambda api: api.tell("DELETE", path_of("tokens", token_id)),
    )
    typer.echo(json.dumps({"revoked": token_id}) if as_json else f"token {token_id} is revoked")


@with_backend
def audit(
    backend: Backend,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Only entries about this target: board:NAME, user:NAME, submission:ID."
        ),
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Only this action, for example user.ban.")
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Only entries with an id below this one.")
    ] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """Show the audit log: who used which right, newest first."""
    from kernelcup.app.people.audit_log import AuditEntry, entries

    found = backend.ask(
        lambda db: entries(db, OPERATOR, target=target, action=action, before_id=before, limit=limit),
        lambda api: api.pages(
            reader(AuditEntry),
            "/audit",
            given(target=target, action=action),
            limit=limit,
            after=before,
        ),
    )
    if as_json:
        typer.echo(json.dumps({"audit": [audit_object(each) for each in found]}))
        return
    for each in found:
        detail = json.dumps(each.detail, ensure_ascii=False) if each.detail else ""
        typer.echo(
            plain(f"{each.at:%Y-%m-%d %H:%M} UTC  {each.actor}  {each.action}  {each.target}  {detail}")
        )


def read_role(text: str) -> Role:
    """Return the role with that name. Raise ``InvalidValue``."""
    try:
        return Role(text.lower())
    except ValueError:
        raise InvalidValue(f"Role {text}: expected {RoleText}") from None


def read_scopes(words: list[str]) -> frozenset[Scope]:
    """Return the scopes with those names. Raise ``InvalidValue``."""
    try:
        return frozenset(Scope(word.lower()) for word in words)
    except ValueError:
        raise InvalidValue(f"--scope {' '.join(words)}: expected some of {', '.join(Scope)}") from None


def describe_user(each: User) -> str:
    """Return a user as one line."""
    banned = f"  banned: {each.ban_reason}" if each.banned_at is not None else ""
    return plain(f"{each.id}  {each.name}  {each.role.value}  [{logins(each)}]{banned}")


def describe_token(each: Token) -> str:
    """Return a token as one line."""
    until = "never expires" if each.expires_at is None else f"expires {each.expires_at:%Y-%m-%d %H:%M} UTC"
    return plain(f"token {each.id}  {each.kind}  {each.name}  [{' '.join(sorted(each.scopes))}]  {until}")


def user_object(each: User) -> dict[str, Any]:
    """Return a user as the object that ``--json`` prints."""
    return {
        "id": each.id,
        "name": each.name,
        "role": each.role.value,
        "banned_at": each.banned_at.isoformat() if each.banned_at is not None else None,
        "ban_reason": each.ban_reason,
        "created_at": each.created_at.isoformat(),
        "identities": [
            {"provider": known.provider, "subject": known.subject, "login": known.login}
            for known in each.identities
        ],
    }


def token_object(each: Token) -> dict[str, Any]:
    """Return a token as the object that ``--json`` prints."""
    return {
        "id": each.id,
        "kind": each.kind,
        "name": each.name,
        "scopes": sorted(each.scopes),
        "created_at": each.created_at.isoformat(),
        "expires_at": each.expires_at.isoformat() if each.expires_at is not None else None,
        "last_used_at": each.last_used_at.isoformat() if each.last_used_at is not None else None,
    }


def audit_object(each: AuditEntry) -> dict[str, Any]:
    """Return an entry of the audit log as the object that ``--json`` prints."""
    return {
        "id": each.id,
        "at": each.at.isoformat(),
        "actor": each.actor,
        "action": each.action,
        "target": each.target,
        "detail": each.detail,
    }


def _tell(each: User, *, as_json: bool) -> None:
    typer.echo(json.dumps(user_object(each)) if as_json else describe_user(each))


def _now() -> datetime:
    return datetime.now(UTC)


def _token_here(
    db: Database, name: str, label: str, wanted: frozenset[Scope] | None, days: int
) -> tuple[Token, str]:
    from kernelcup.app.people import accounts, tokens

    now = _now()
    return tokens.create_token(
        db,
        OPERATOR,
        name=label,
        scopes=wanted or _usual_scopes(accounts.get_user(db, OPERATOR, name).role),
        now=now,
        expires_at=now + timedelta(days=days),
        for_user=name,
    )


def _token_there(
    api: Api, name: str, label: str, wanted: frozenset[Scope] | None, days: int
) -> tuple[Token, str]:
    from kernelcup.app.people import accounts

    if wanted is None:
        wanted = _usual_scopes(api.ask(reader(accounts.User), "GET", path_of("users", name)).role)
    body = {"name": label, "scopes": sorted(wanted), "days": days, "user": name}
    return api.ask(lambda told: (token_of(told), str(told["secret"])), "POST", "/tokens", json=body)


def token_of(body: dict[str, Any]) -> Token:
    """Read a token from a server's form; revoked ones are not in its lists."""
    from kernelcup.app.people.tokens import Token

    return reader(Token)({**body, "revoked_at": None})


def _usual_scopes(role: Role) -> frozenset[Scope]:
    from kernelcup.app.people import tokens

    return tokens.scopes_of(role) - {Scope.ACT}
