"""``kernelcup account``: export a user's data, and delete the account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelcup.app import personal_data
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.operations import add_commands
from kernelcup.cli.options import JsonOption, UserArgument
from kernelcup.domain import OPERATOR
from kernelcup.errors import Conflict


def commands() -> dict[str, Any]:
    """Return the commands by name."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("export")(export)
    add_commands(group, "account", {})
    root: Any = typer.main.get_group(group)
    return dict(root.commands)


@with_backend
def export(
    backend: Backend,
    name: UserArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A zip that does not exist yet.")],
    as_json: JsonOption = False,
) -> None:
    """Write a user's data to FILE, a zip: your own; admins can export anyone's."""
    content = backend.ask(
        lambda db: b"".join(personal_data.export_account(db, OPERATOR, name).parts),
        lambda api: api.export(name),
    )
    try:
        file.touch(mode=0o600, exist_ok=False)
    except FileExistsError as error:
        raise Conflict(f"{file} is there already; nothing was written.") from error
    file.write_bytes(content)
    found = {"file": str(file), "bytes": len(content)}
    typer.echo(json.dumps(found) if as_json else f"{file}: {len(content):,} bytes")
