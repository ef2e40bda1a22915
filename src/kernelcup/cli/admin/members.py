"""``kernelcup admin invite`` and ``members``; for participants ``join`` and ``budget``."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli import wiring
from kernelcup.cli.admin.limits import PEOPLE
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.compete.login import budget_object, budget_text
from kernelcup.cli.compete.submit import board_device
from kernelcup.cli.options import BoardArgument, JsonOption, UserArgument, UserOption
from kernelcup.cli.show.json_object import json_object
from kernelcup.cli.show.plain_text import plain
from kernelcup.client.requests import path_of, reader
from kernelcup.domain import OPERATOR, Actor
from kernelcup.errors import Conflict, InvalidValue, NotFound

if TYPE_CHECKING:
    from kernelcup.app.boards.membership import ImportResult, Invite
    from kernelcup.client.models import BudgetInfo
    from kernelcup.engine.database import Database

invite = typer.Typer(help="Invite codes for closed leaderboards.", no_args_is_help=True)
members = typer.Typer(help="Members of closed leaderboards.", no_args_is_help=True)

LARGEST_LIST_BYTES = 1_000_000
STDIN = "-"

CodeArgument = Annotated[str, typer.Argument(metavar="CODE", help="The code, in any spelling.")]


@invite.command("create")
@with_backend
def create_invites(
    backend: Backend,
    boards: Annotated[
        list[str], typer.Argument(metavar="BOARD...", help="Leaderboards that each code opens.")
    ],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="Number of codes.")] = 1,
    label: Annotated[
        str, typer.Option("--label", help="A label, for example the people that the codes are for.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Create codes, each of which lets one user into the leaderboards. Prints one on each line."""
    named = [backend.board(each).name for each in boards]
    codes = make_invites(backend, named, count=count, label=label)
    if as_json:
        typer.echo(json.dumps({"codes": codes, "leaderboards": named}))
        return
    for code in codes:
        typer.echo(plain(code))
    # On stderr: the codes on stdout may go to a file.
    typer.echo("Next: recipients join with: kernelcup join CODE", err=True)


def make_invites(backend: Backend, boards: list[str], *, count: int, label: str) -> list[str]:
    """Create codes."""
    from kernelcup.app.boards import membership

    wanted = {"leaderboards": boards, "count": count, "label": label}
    return backend.ask(
        lambda db: membership.make_invites(db, OPERATOR, boards, count=count, label=label, now=_now()),
        lambda api: api.ask(
            lambda body: [str(code) for code in body["codes"]], "POST", "/invites", json=wanted
        ),
    )


@invite.command("list")
@with_backend
def list_invites(backend: Backend, board: BoardArgument, as_json: JsonOption = False) -> None:
    """List a leaderboard's codes and their users."""
    from kernelcup.app.boards import membership
    from kernelcup.app.boards.membership import Invite

    named = backend.board(board).name
    found = backend.ask(
        lambda db: membership.list_invites(db, OPERATOR, named),
        lambda api: api.ask(reader(list[Invite]), "GET", path_of("leaderboards", named, "invites")),
    )
    if as_json:
        codes = [invite_object(each) for each in found]
        typer.echo(json.dumps({"leaderboard": named, "invites": codes}))
        return
    if not found:
        typer.echo(f"{named} has no invites. Next: kernelcup admin invite create {named}{backend.option}")
    for each in found:
        used = f"used by {each.claimed_by}" if each.claimed_by is not None else "not used"
        label = f"  {each.label}" if each.label else ""
        typer.echo(plain(f"{each.code}{label}  [{', '.join(each.boards)}]  {used}"))


@invite.command("revoke")
@with_backend
def revoke_invite(backend: Backend, code: CodeArgument, as_json: JsonOption = False) -> None:
    """Revoke a code. A user who joined with it stays a member."""
    from kernelcup.app.boards import membership

    with wiring.pointing_to(f"kernelcup admin invite list BOARD{backend.option}", NotFound):
        was_claimed = backend.ask(
            lambda db: membership.revoke_invite(db, OPERATOR, code, now=_now()),
            lambda api: api.ask(lambda body: bool(body["was_claimed"]), "DELETE", path_of("invites", code)),
        )
    if as_json:
        typer.echo(json.dumps({"revoked": code, "was_claimed": was_claimed}))
        return
    more = "; the user who joined with it stays a member" if was_claimed else ""
    typer.echo(plain(f"{code} is revoked{more}"))


@members.command("list")
@with_backend
def list_members(backend: Backend, board: BoardArgument, as_json: JsonOption = False) -> None:
    """List the members of a leaderboard."""
    from kernelcup.app.boards import membership
    from kernelcup.app.boards.membership import Member

    named = backend.board(board).name
    found: list[Member] = backend.ask(
        lambda db: membership.members(db, OPERATOR, named),
        lambda api: api.ask(reader(list[Member]), "GET", path_of("leaderboards", named, "members")),
    )
    if as_json:
        people = [json_object(each, "user", "pseudonym", "joined_at") for each in found]
        typer.echo(json.dumps({"leaderboard": named, "members": people}))
        return
    if not found:
        typer.echo(f"{named} has no members. Next: kernelcup admin invite create {named}{backend.option}")
    for each in found:
        shown = f" as {each.pseudonym}" if each.pseudonym is not None else ""
        typer.echo(plain(f"{each.user}{shown}  since {each.joined_at:%Y-%m-%d %H:%M} UTC"))


@members.command("add")
@with_backend
def add_member(
    backend: Backend,
    board: BoardArgument,
    user: UserArgument,
    pseudonym: Annotated[
        str | None,
        typer.Option("--pseudonym", help="The member's name for others on a pseudonymous leaderboard."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a user a member of a leaderboard, or give a member another pseudonym."""
    from kernelcup.app.boards import membership

    named = backend.board(board).name
    with wiring.pointing_to(PEOPLE, NotFound):
        backend.ask(
            lambda db: membership.add_member(db, OPERATOR, named, user, pseudonym=pseudonym, now=_now()),
            lambda api: api.tell(
                "PUT", path_of("leaderboards", named, "members", user), json={"pseudonym": pseudonym}
            ),
        )
    if as_json:
        typer.echo(json.dumps({"leaderboard": named, "user": user, "pseudonym": pseudonym}))
    else:
        typer.echo(plain(f"{user} is a member of {named}"))


@members.command("remove")
@with_backend
def remove_member(
    backend: Backend,
    board: BoardArgument,
    user: UserArgument,
    as_json: JsonOption = False,
) -> None:
    """End a membership; the user's submissions stay."""
    from kernelcup.app.boards import membership

    named = backend.board(board).name
    with wiring.pointing_to(f"kernelcup admin members list {named}{backend.option}", NotFound):
        backend.ask(
            lambda db: membership.remove_member(db, OPERATOR, named, user, now=_now()),
            lambda api: api.tell("DELETE", path_of("leaderboards", named, "members", user)),
        )
    if as_json:
        typer.echo(json.dumps({"leaderboard": named, "removed": user}))
    else:
        typer.echo(plain(f"{user} is no longer a member of {named}"))


@members.command("import")
@with_backend
def import_members(
    backend: Backend,
    board: BoardArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="CSV",
            help="CSV with a header: user or label or both, and optionally pseudonym; - is stdin.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Make everyone on a class list a member, all or none; people without an account get a code each.

    Standard output has one code on each line, with its recipient.
    """
    text = read_list(file)
    named = backend.board(board).name
    result = import_list(backend, named, text)
    if as_json:
        typer.echo(json.dumps(import_object(named, result)))
        return
    told = f"{named}: {len(result.added)} new members, {len(result.already)} were members already"
    typer.echo(plain(f"{told}, {len(result.codes)} codes"), err=True)
    if result.without_account:
        absent = ", ".join(result.without_account)
        typer.echo(plain(f"without an account, so these got a code: {absent}"), err=True)
    for each in result.codes:
        typer.echo(plain(f"{each.code}  {each.label}"))


def import_list(backend: Backend, board: str, text: str) -> ImportResult:
    """Import a class list."""
    from kernelcup.app.boards import membership
    from kernelcup.app.boards.membership import ImportResult

    path = path_of("leaderboards", board, "members", "import")
    return backend.ask(
        lambda db: membership.import_members(db, OPERATOR, board, text, now=_now()),
        lambda api: api.ask(reader(ImportResult), "POST", path, json={"csv": text}),
    )


@with_backend
def join(backend: Backend, code: CodeArgument, user: UserOption = None, as_json: JsonOption = False) -> None:
    """Join the leaderboards that an invite code opens."""
    from kernelcup.app.boards import membership

    again = "ask the person who gave you the code for a new one"
    with (
        wiring.pointing_to(again, NotFound),
        wiring.pointing_to(again, Conflict),
    ):
        refuse_user(backend, user)
        names = backend.ask(
            lambda db: membership.join(db, account(db, user), code, now=_now()),
            lambda api: api.ask(
                lambda body: [str(name) for name in body["leaderboards"]],
                "POST",
                "/join",
                json={"code": code},
            ),
        )
    if as_json:
        typer.echo(json.dumps({"leaderboards": names}))
        return
    typer.echo(
        plain(f"You belong to {', '.join(names)}. Next: kernelcup board show {names[0]}{backend.option}")
    )


@with_backend
def budget(
    backend: Backend,
    board: BoardArgument,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Only this one; default: all.")
    ] = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how much you may still submit to a leaderboard, for each limit."""
    refuse_user(backend, user)
    found = backend.board(board)
    devices = found.devices if device is None else (board_device(found, device),)
    left = {
        each: backend.ask(
            lambda db, each=each: local_budget(db, user, found.name, each),  # type: ignore[misc]
            lambda api, each=each: api.budget(found.name, each),  # type: ignore[misc]
        )
        for each in devices
    }
    if as_json:
        body = {each: [budget_object(part) for part in parts] for each, parts in left.items()}
        typer.echo(json.dumps({"leaderboard": found.name, "budget": body}))
        return
    for each, parts in left.items():
        typer.echo(plain(f"{found.name} on {each}: {budget_text(parts)}"))


def local_budget(db: Database, user: str | None, board: str, device: str) -> list[BudgetInfo]:
    """Return how much a user may still submit, from this machine's database."""
    from kernelcup.app.people.user_names import actor_of
    from kernelcup.app.rules import limits
    from kernelcup.client.models import BudgetInfo

    who = actor_of(db, wiring.user_name(user))
    return [
        BudgetInfo(limit=each.limit.text, used=each.used, remaining=each.remaining, resets_at=each.resets_at)
        for each in limits.budget(db, who, board=board, device=device, now=_now())
    ]


def account(db: Database, user: str | None) -> Actor:
    """Return the local user, creating the account if needed."""
    from kernelcup.app.people.user_names import actor_of, ensure_user

    return actor_of(db, ensure_user(db, wiring.user_name(user), now=_now()))


def refuse_user(backend: Backend, user: str | None) -> None:
    """Raise ``InvalidValue`` for a user name given along with a server."""
    from kernelcup.cli.backend import server

    if backend.server is not None:
        server.refuse_user(user)


def read_list(file: Path) -> str:
    """Return the text of a class list. Raise ``NotFound`` or ``InvalidValue``."""
    try:
        if str(file) == STDIN:
            content = sys.stdin.buffer.read(LARGEST_LIST_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(LARGEST_LIST_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from error
    if len(content) > LARGEST_LIST_BYTES:
        raise InvalidValue(f"{file}: a list may have at most {LARGEST_LIST_BYTES:,} bytes; this one has more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidValue(f"{file}: expected CSV encoded as UTF-8") from None


def invite_object(each: Invite) -> dict[str, Any]:
    """Return an invite as the object that ``--json`` prints."""
    names = ("code", "label", "pseudonym", "created_at", "claimed_by", "claimed_at")
    return json_object(each, *names, leaderboards=each.boards)


def import_object(board: str, result: ImportResult) -> dict[str, Any]:
    """Return the outcome of an import as the object that ``--json`` prints."""
    return json_object(result, "added", "already", "codes", "without_account", leaderboard=board)


def _now() -> datetime:
    return datetime.now(UTC)
