"""``kernelcup admin user link``, ``links`` and ``revoke-link``: sign-in without a provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.admin.members import read_list
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show.json_object import json_object
from kernelcup.cli.show.plain_text import plain
from kernelcup.errors import InvalidValue

if TYPE_CHECKING:
    from kernelcup.app.people.login_links import LoginLink


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
        typer.echo(json.dumps({"links": [_object(each) for each in made]}))
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


def _object(each: LoginLink) -> dict[str, object]:
    return json_object(each, "user", "url", "expires_at", "is_new_user")
