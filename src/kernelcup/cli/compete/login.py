"""``kernelcup login``, ``logout`` and ``whoami``: sign in to a server and out."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.backend.choosing import overriding
from kernelcup.cli.credentials import Credentials, write_popcorn
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show.boards import moment
from kernelcup.cli.show.output import plain
from kernelcup.errors import InvalidValue, SignInNeeded, SignInPending, SlowDown

if TYPE_CHECKING:
    from kernelcup.app.rules.limits import Budget
    from kernelcup.client.api import Api
    from kernelcup.client.transport import Client

DEFAULT_SERVER = "http://127.0.0.1:8000"
SLOWER_S = 5

ServerArgument = Annotated[
    str | None,
    typer.Argument(metavar="SERVER", help="Address of the server; default: that of the last sign-in."),
]


def login(
    server: ServerArgument = None,
    token: Annotated[
        str | None, typer.Option("--token", help="An existing token; - reads it from standard input.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            help="What the token may do: read, submit, inspect, manage, admin; default: all but admin.",
        ),
    ] = None,
    popcorn: Annotated[
        bool, typer.Option("--popcorn", help="Also sign in popcorn-cli: writes ~/.popcorn.yaml.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Sign in to a server, from any machine.

    Shows an address and a code. Open the address in any browser, sign in there and enter the
    code. The token goes to ~/.config/kernelcup/credentials.json, which only you can read.
    """
    from kernelcup.app.people import accounts
    from kernelcup.client.api import Api
    from kernelcup.client.core import read_server
    from kernelcup.client.transport import Client

    known = Credentials.load(os.environ)
    where = read_server(server or known.default or DEFAULT_SERVER)
    secret = read_token(token)
    if secret is None:
        with Client(where) as client:
            secret = let_in(client, scope or ["read", "submit", "inspect", "manage"], time.sleep)
    with Client(where, secret) as client:
        me = Api(client).call(accounts.get_me)
    known.put(where, secret)
    if (name := overriding()) is not None and not os.environ.get("KERNELCUP_SERVER"):
        typer.echo(
            f"{name} is set: commands use this machine's database unless you pass --server {where}",
            err=True,
        )
    body: dict[str, Any] = {"server": where, "user": me.name, "role": me.role, "scopes": sorted(me.scopes)}
    if popcorn:
        body["popcorn"] = str(write_popcorn(secret, os.environ))
    if as_json:
        typer.echo(json.dumps(body))
        return
    typer.echo(f"You are {plainly(me.name)} ({me.role}) at {where}.")
    if popcorn:
        typer.echo(f"{body['popcorn']} is written. Next: POPCORN_API_URL={where} popcorn submit FILE")


def logout(server: ServerArgument = None, as_json: JsonOption = False) -> None:
    """Revoke this machine's token for a server and forget it."""
    from kernelcup.app.people import tokens
    from kernelcup.client.api import Api
    from kernelcup.client.core import read_server
    from kernelcup.client.transport import Client

    # The environment's token is not this command's to revoke.
    known = Credentials.load({name: text for name, text in os.environ.items() if name != "KERNELCUP_TOKEN"})
    where, secret = known.find(read_server(server) if server is not None else None)
    # An invalid token needs no revoking.
    with Client(where, secret) as client, suppress(SignInNeeded):
        Api(client).call(tokens.revoke_current_token)
    known.remove(where)
    typer.echo(json.dumps({"signed_out": where}) if as_json else f"You are signed out of {where}.")


def whoami(
    server: ServerArgument = None,
    board: Annotated[
        str | None,
        typer.Option("--board", "-b", help="Also show how much you may still submit to this leaderboard."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show your account at a server and what your token may do."""
    from kernelcup.app.people import accounts
    from kernelcup.client.api import Api
    from kernelcup.client.core import read_server
    from kernelcup.client.transport import Client

    named = server or os.environ.get("KERNELCUP_SERVER")
    wanted = read_server(named) if named else None
    where, secret = Credentials.load(os.environ).find(wanted)
    with Client(where, secret) as client:
        api = Api(client)
        me = api.call(accounts.get_me)
        left = budgets(api, board) if board is not None else {}
    if as_json:
        body: dict[str, Any] = {
            "server": where,
            "user": me.name,
            "role": me.role,
            "scopes": sorted(me.scopes),
        }
        if board is not None:
            body["budget"] = {
                device: [budget_object(each) for each in found] for device, found in left.items()
            }
        typer.echo(json.dumps(body))
        return
    scopes = ", ".join(sorted(me.scopes))
    typer.echo(f"You are {plainly(me.name)} ({me.role}) at {where}; the token may: {scopes}.")
    for device, found in left.items():
        typer.echo(plainly(f"{board} on {device}: {budget_text(found)}"))


def budgets(api: Api, board: str) -> dict[str, list[Budget]]:
    """Return the remaining budget for a leaderboard, by device."""
    from kernelcup.app.rules import limits

    known = api.board(board)
    return {device: api.call(limits.budget, board=known.name, device=device) for device in known.devices}


def budget_text(found: Sequence[Budget]) -> str:
    """Describe how much of each limit is left."""
    parts = []
    for each in found:
        more = f", more from {moment(each.resets_at)}" if each.resets_at is not None else ""
        parts.append(f"{each.limit}: {each.used:g} used, {each.remaining:g} left{more}")
    return "; ".join(parts) or "no limit"


def budget_object(budget: Budget) -> dict[str, object]:
    """Return the rest of a limit as the object that ``--json`` prints."""
    return {
        "limit": budget.limit,
        "used": budget.used,
        "remaining": budget.remaining,
        "resets_at": budget.resets_at.isoformat() if budget.resets_at is not None else None,
    }


def read_token(given: str | None) -> str | None:
    """Return the token of the command line; ``-`` means standard input."""
    if given is None:
        return None
    secret = sys.stdin.readline().strip() if given == "-" else given.strip()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise InvalidValue("--token: expected a token as `kernelcup admin token create` prints it")
    return secret


def let_in(client: Client, scopes: list[str], sleep: Callable[[float], None]) -> str:
    """Wait until this command line is let in, and return its token.

    Raises:
        SignInDenied, SignInExpired: It was not let in.
    """
    name = f"kernelcup on {socket.gethostname()}"[:60]
    begun = client.request("POST", "/auth/device", json={"client": name, "scopes": scopes})
    # Not on standard output, which may be JSON.
    typer.echo(f"Open {plainly(begun['verification_uri'])}", err=True)
    typer.echo(f"and enter the code {plainly(begun['user_code'])}", err=True)
    interval = float(begun["interval"])
    while True:
        sleep(interval)
        try:
            got = client.request("POST", "/auth/device/token", json={"device_code": begun["device_code"]})
        except SignInPending:
            continue
        except SlowDown:
            interval += SLOWER_S
            continue
        return str(got["access_token"])


def plainly(value: object) -> str:
    """Return a server's text without terminal control characters."""
    return plain(str(value))
