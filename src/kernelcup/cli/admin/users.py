"""``kernelcup admin user`` with its sign-in links, ``admin token`` and ``admin audit``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.app.people import accounts, audit_log, login_links, tokens
from kernelcup.cli import wiring
from kernelcup.cli.admin.members import read_list
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.operations import Answer, echo, listed, say
from kernelcup.cli.options import JsonOption, UserArgument
from kernelcup.cli.show.output import fields, json_object, plain
from kernelcup.domain import Role, Scope
from kernelcup.domain.answers import Token, User
from kernelcup.errors import InvalidValue

if TYPE_CHECKING:
    from kernelcup.app.people.login_links import LoginLink


def show_users(found: Sequence[User]) -> None:
    """Print users as a table."""
    from kernelcup.cli.show import tables, terminal

    table = tables.new_table("id", "name", "role", "signs in as", "banned", right=("id",))
    for each in found:
        values = (each.id, full_name(each), each.role.value, logins(each), each.ban_reason)
        table.add_row(*map(tables.cell, values))
    tables.print_table(terminal.console(), "", table, drop=("signs in as",))


def full_name(each: User) -> str:
    """Return a user's name, and the one that others see."""
    return f"{each.name} ({each.shown_name})" if each.shown_name else each.name


def logins(each: User) -> str:
    """Return a user's accounts at other sites."""
    return ", ".join(f"{known.provider}: {known.login}" for known in each.identities)


@with_backend
def change_role(
    backend: Backend,
    name: UserArgument,
    role: Annotated[str, typer.Argument(metavar="ROLE", help=f"{accounts.ROLES}.")],
    as_json: JsonOption = False,
) -> None:
    """Change a user's role. Tokens lose at once the scopes that the new role does not allow."""
    wanted = accounts.parse_role(role)
    changed = backend.call(accounts.change, name=name, new_name=None, role=wanted)
    typer.echo(json.dumps(user_object(changed)) if as_json else describe_user(changed))


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
    wanted = read_scopes(scope or usual_scopes(backend.call(accounts.get_user, name=name).role))
    made = backend.call(
        tokens.create_token, name=label, scopes=wanted, kind=tokens.KINDS[0], days=days, for_user=name
    )
    if as_json:
        typer.echo(json.dumps({**token_object(made), "secret": made.secret}))
        return
    typer.echo(f"{describe_token(made)}\nThis is shown only once:", err=True)
    typer.echo(made.secret)


@with_backend
def list_tokens(backend: Backend, name: UserArgument, as_json: JsonOption = False) -> None:
    """List a user's usable tokens, including browser sessions."""
    found = backend.call(tokens.list_tokens, for_user=name)
    if as_json:
        typer.echo(json.dumps({"tokens": [token_object(each) for each in found]}))
        return
    for each in found:
        typer.echo(describe_token(each))


def read_scopes(words: Iterable[str]) -> list[Scope]:
    """Return the scopes with those names, each once. Raise ``InvalidValue``."""
    try:
        return sorted({Scope(word.lower()) for word in words})
    except ValueError:
        raise InvalidValue(f"--scope {' '.join(words)}: expected some of {', '.join(Scope)}") from None


def usual_scopes(role: Role) -> frozenset[Scope]:
    """Return what tokens of users with this role may do, except acting for others."""
    return tokens.scopes_of(role) - {Scope.ACT}


def describe_user(each: User) -> str:
    """Return a user as one line."""
    banned = f"  banned: {each.ban_reason}" if each.banned_at is not None else ""
    return plain(f"{each.id}  {full_name(each)}  {each.role.value}  [{logins(each)}]{banned}")


def describe_token(each: Token) -> str:
    """Return a token as one line."""
    until = "never expires" if each.expires_at is None else f"expires {each.expires_at:%Y-%m-%d %H:%M} UTC"
    return plain(f"token {each.id}  {each.kind}  {each.name}  [{' '.join(sorted(each.scopes))}]  {until}")


def user_object(user: User) -> dict[str, Any]:
    """Return a user as the object that ``--json`` prints."""
    names = ("id", "name", "shown_name", "role", "banned_at", "ban_reason", "created_at")
    identities = [json_object(known, "provider", "subject", "login") for known in user.identities]
    return json_object(user, *names) | {"identities": identities}


def token_object(token: Token) -> dict[str, Any]:
    """Return a token as the object that ``--json`` prints."""
    names = ("id", "kind", "name", "created_at", "expires_at", "last_used_at")
    return json_object(token, *names, scopes=sorted(token.scopes))


def audit_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each entry of the audit log."""
    for entry in answer.value:
        detail = json.dumps(entry.detail, ensure_ascii=False) if entry.detail else ""
        yield f"{entry.at:%Y-%m-%d %H:%M} UTC  {entry.actor}  {entry.action}  {entry.target}  {detail}"


def added_lines(answer: Answer) -> Iterable[str]:
    """Return a new user's line, and the next step."""
    yield describe_user(answer.value)
    yield f"Next: kernelcup admin user link {answer.value.name}{answer.option}"


def table_of_users(answer: Answer) -> Iterable[str]:
    """Print users as a table."""
    show_users(answer.value)
    return ()


def link_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each open sign-in link."""
    if not answer.value:
        yield f"No sign-in link is open. Next: kernelcup admin user link USER{answer.option}"
    for link in answer.value:
        yield f"{link.user}  until {link.expires_at:%Y-%m-%d %H:%M} UTC"


say(accounts.list_users, table_of_users, listed("users", user_object))
say(accounts.make_user, added_lines, lambda answer: user_object(answer.value))
for change in (accounts.ban, accounts.unban):
    say(change, lambda answer: describe_user(answer.value), lambda answer: user_object(answer.value))
say(tokens.revoke_token, "token {token_id} is revoked", echo(revoked="token_id"))
say(audit_log.entries, audit_lines, listed("audit"))
say(
    login_links.open_links,
    link_lines,
    listed("links"),
)
say(login_links.revoke_links, "the link of {name} is revoked", echo(revoked="name"))


@with_backend
def link(
    backend: Backend,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="USER...",
            help="Names of users; without a name or a list, the user `admin` of this machine's database.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--list", help="A class list (CSV with a column user), or one name on each line; - is stdin."
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create participants for names without an account.")
    ] = False,
    board: Annotated[
        str | None, typer.Option("--board", help="Also make all of them members of this leaderboard.")
    ] = None,
    hours: Annotated[
        int,
        typer.Option(
            "--hours", min=1, max=72, help="How long links work; those of creators and admins: 15 minutes."
        ),
    ] = 24,
    as_json: JsonOption = False,
) -> None:
    """Print one-time sign-in links as USER,URL. They are shown only once; a new link ends the earlier one."""
    from kernelcup.app.courses import class_list
    from kernelcup.app.people import login_links

    text = "" if file is None else read_list(file)
    wanted = [*(names or ()), *class_list.names_in(text)]
    named = None if board is None else backend.board(board).name
    if not wanted and backend.server is not None:
        raise InvalidValue("Name the users, or give a class list with --list FILE.")
    try:
        made = backend.call(login_links.make_links, names=wanted, create=create, board=named, hours=hours)
    except InvalidValue as error:
        if not create and "There is no user" in str(error):
            error.add_note("correct the names, or make accounts for new ones with --create")
        raise
    if backend.server is None:
        wiring.address_of(backend.config, lambda text: typer.echo(text, err=True))
    if as_json:
        typer.echo(json.dumps({"links": [fields(each) for each in made]}))
    else:
        _tell(made)
    if named is not None:  # after the links are printed: nothing can print them again
        known = text if file is not None and not names else "\n".join(each.user for each in made)
        backend.call(class_list.import_members, board=named, csv_text=class_list.class_of(known))


def _tell(made: list[LoginLink]) -> None:
    for each in made:
        typer.echo(plain(f"{each.user},{each.url}"))
    if new := [each.user for each in made if each.is_new_user]:
        typer.echo(plain(f"new accounts: {', '.join(new)}"), err=True)
    last = max(each.expires_at for each in made)
    typer.echo(f"Each works once, until {last:%Y-%m-%d %H:%M} UTC at the latest.", err=True)
