"""``kernelcup admin limit``, ``late``, ``freeze`` and ``unveil``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.options import BoardArgument, JsonOption, UserArgument
from kernelcup.cli.show.boards import moment
from kernelcup.cli.show.json_object import json_object
from kernelcup.cli.show.plain_text import plain
from kernelcup.client.requests import path_of, reader
from kernelcup.domain import OPERATOR
from kernelcup.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from kernelcup.app.boards.late_exceptions import LateException
    from kernelcup.app.rules.limits import Limit

limit = typer.Typer(help="Limits on submissions in a period of time.", no_args_is_help=True)
late = typer.Typer(help="Users who may submit after the deadline.", no_args_is_help=True)

PEOPLE = "kernelcup admin invite create BOARD   (people without an account join with a code)"
"""The next step if no user has the name."""


@limit.command("add")
@with_backend
def add_limit(
    backend: Backend,
    text: Annotated[
        str,
        typer.Argument(
            metavar="LIMIT", help='"10/hour", "3 per 10 minutes", "600 gpu-seconds/day", "20 cost/month".'
        ),
    ],
    board: Annotated[
        str | None, typer.Option("--board", "-b", help="Count only submissions to this leaderboard.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Limit only this user.")] = None,
    device: Annotated[
        str | None, typer.Option("--device", "-d", help="Count only submissions to this device.")
    ] = None,
    launcher: Annotated[
        str | None,
        typer.Option(
            "--launcher", help="A budget of what the machines of this launcher cost; its jobs wait."
        ),
    ] = None,
    modes: Annotated[
        str | None, typer.Option("--modes", help="Count only these modes: practice, profile or ranked.")
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="All users share the amount; default: each user has it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Limit how much may be submitted. A submission must keep within all limits."""
    from kernelcup.app.rules import limits
    from kernelcup.app.rules.limits import Limit

    named = None if board is None else backend.board(board).name
    body = {
        "text": text,
        "leaderboard": named,
        "user": user,
        "device": device,
        "launcher": launcher,
        "mode_group": modes,
        "per_user": not together,
    }
    with wiring.pointing_to(PEOPLE if user is not None else "kernelcup devices", NotFound):
        made = backend.ask(
            lambda db: limits.add_limit(
                db,
                OPERATOR,
                text=text,
                board=named,
                user=user,
                device=device,
                launcher=launcher,
                mode_group=modes,
                per_user=not together,
                now=_now(),
            ),
            lambda api: api.ask(reader(Limit), "POST", "/limits", json=body),
        )
    typer.echo(json.dumps(limit_object(made)) if as_json else describe_limit(made))


@limit.command("list")
@with_backend
def list_limits(
    backend: Backend,
    board: Annotated[
        str | None,
        typer.Option("--board", "-b", help="Only limits of this leaderboard; admins may see all limits."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List limits."""
    from kernelcup.app.rules import limits
    from kernelcup.app.rules.limits import Limit

    with wiring.pointing_to("name a leaderboard with --board", Forbidden):
        named = None if board is None else backend.board(board).name
        found = backend.ask(
            lambda db: limits.list_limits(db, OPERATOR, named),
            lambda api: api.ask(
                reader(list[Limit]), "GET", "/limits", params={} if named is None else {"leaderboard": named}
            ),
        )
    if as_json:
        typer.echo(json.dumps({"limits": [limit_object(each) for each in found]}))
        return
    if not found:
        typer.echo(
            f'There is no limit. Next: kernelcup admin limit add "10/hour" --board BOARD{backend.option}'
        )
    for each in found:
        typer.echo(describe_limit(each))


@limit.command("remove")
@with_backend
def remove_limit(
    backend: Backend,
    limit_id: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="Number of the limit.")],
    as_json: JsonOption = False,
) -> None:
    """Remove a limit."""
    from kernelcup.app.rules import limits

    with wiring.pointing_to(f"kernelcup admin limit list{backend.option}", NotFound):
        backend.ask(
            lambda db: limits.remove_limit(db, OPERATOR, limit_id, now=_now()),
            lambda api: api.tell("DELETE", path_of("limits", limit_id)),
        )
    typer.echo(json.dumps({"removed": limit_id}) if as_json else f"limit {limit_id} is removed")


@late.command("grant")
@with_backend
def grant_late(
    backend: Backend,
    board: BoardArgument,
    user: UserArgument,
    until: Annotated[
        str,
        typer.Option(
            "--until",
            help="End of the exception, in the forms of a deadline; a date without a time means the end of that day.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Let a user submit until a given time, whatever the deadline is."""
    from kernelcup.app.boards import late_exceptions
    from kernelcup.app.boards.deadlines import parse_deadline

    end = parse_deadline(until, _now())
    named = backend.board(board).name
    with wiring.pointing_to(PEOPLE, NotFound):
        backend.ask(
            lambda db: late_exceptions.grant_late(db, OPERATOR, named, user, end, now=_now()),
            lambda api: api.tell(
                "PUT",
                path_of("leaderboards", named, "late", user),
                json={"until": end.isoformat()},
            ),
        )
    if as_json:
        typer.echo(json.dumps({"leaderboard": named, "user": user, "until": end.isoformat()}))
    else:
        typer.echo(plain(f"{user} may submit to {named} until {moment(end)}"))


@late.command("revoke")
@with_backend
def revoke_late(
    backend: Backend, board: BoardArgument, user: UserArgument, as_json: JsonOption = False
) -> None:
    """Revoke a late exception."""
    from kernelcup.app.boards import late_exceptions

    named = backend.board(board).name
    with wiring.pointing_to(f"kernelcup admin late list {named}{backend.option}", NotFound):
        backend.ask(
            lambda db: late_exceptions.revoke_late(db, OPERATOR, named, user, now=_now()),
            lambda api: api.tell("DELETE", path_of("leaderboards", named, "late", user)),
        )
    if as_json:
        typer.echo(json.dumps({"leaderboard": named, "revoked": user}))
    else:
        typer.echo(plain(f"the deadline of {named} applies to {user} again"))


@late.command("list")
@with_backend
def list_late(backend: Backend, board: BoardArgument, as_json: JsonOption = False) -> None:
    """List the users who may submit after the deadline."""
    from kernelcup.app.boards import late_exceptions
    from kernelcup.app.boards.late_exceptions import LateException

    named = backend.board(board).name
    found: list[LateException] = backend.ask(
        lambda db: late_exceptions.late_exceptions(db, OPERATOR, named),
        lambda api: api.ask(reader(list[LateException]), "GET", path_of("leaderboards", named, "late")),
    )
    if as_json:
        users = [json_object(each, "user", "until") for each in found]
        typer.echo(json.dumps({"leaderboard": named, "late": users}))
        return
    if not found:
        typer.echo(f"{named} has no late exceptions")
    for each in found:
        typer.echo(plain(f"{each.user}  until {moment(each.until)}"))


@with_backend
def freeze(
    backend: Backend,
    board: BoardArgument,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Start of the freeze, in the forms of an opening; a date without a time means the start of that day.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Freeze what others see of the standings, now or at a given time, until you unveil them."""
    from kernelcup.app.boards.deadlines import parse_opening
    from kernelcup.app.results import freezes
    from kernelcup.client.models import BoardInfo

    wanted = None if at is None else parse_opening(at)
    now = _now()
    named = backend.board(board).name
    found = backend.ask(
        lambda db: BoardInfo.of(freezes.freeze(db, OPERATOR, named, wanted or now, now)),
        lambda api: api.ask(
            BoardInfo.of_json,
            "POST",
            path_of("leaderboards", named, "freeze"),
            json={"at": None if wanted is None else wanted.isoformat()},
        ),
    )
    if as_json:
        typer.echo(json.dumps(found.as_object()))
        return
    if wanted is None or found.freeze_at is None:
        typer.echo(plain(f"others see the standings of {found.name} as they are now"))
    else:
        typer.echo(plain(f"others see the standings of {found.name} as of {moment(found.freeze_at)}"))
    typer.echo(f"Next: kernelcup admin unveil {found.name}{backend.option}   (once the result may be seen)")


@with_backend
def unveil(backend: Backend, board: BoardArgument, as_json: JsonOption = False) -> None:
    """Show everyone the current standings of a frozen leaderboard."""
    from kernelcup.app.results import freezes
    from kernelcup.client.models import BoardInfo

    named = backend.board(board).name
    found = backend.ask(
        lambda db: BoardInfo.of(freezes.unveil(db, OPERATOR, named, _now())),
        lambda api: api.ask(BoardInfo.of_json, "POST", path_of("leaderboards", named, "unveil")),
    )
    if as_json:
        typer.echo(json.dumps(found.as_object()))
    else:
        typer.echo(plain(f"everyone sees the current standings of {found.name}"))


def describe_limit(each: Limit) -> str:
    """Return a limit as one line."""
    return plain(f"limit {each.id}: {each.text}")


def limit_object(each: Limit) -> dict[str, Any]:
    """Return a limit as ``--json`` prints it."""
    names = (
        "id",
        "text",
        "user",
        "device",
        "launcher",
        "mode_group",
        "per_user",
        "quantity",
        "amount",
        "window_s",
    )
    return json_object(each, *names, leaderboard=each.board)


def _now() -> datetime:
    return datetime.now(UTC)
