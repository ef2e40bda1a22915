"""``kernelcup config``: what is configured, and whether it can be used."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from kernelcup.cli import wiring
from kernelcup.cli.operate.db import state_of
from kernelcup.cli.options import ConfigOption, JsonOption
from kernelcup.cli.show.output import plain

app = typer.Typer(help="Show the configuration, and check that it can be used.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Show the configuration, and check that it can be used."""


@app.command()
def check(
    judge: Annotated[
        bool,
        typer.Option("--judge/--no-judge", help="Whether this machine judges, as for `kernelcup serve`."),
    ] = True,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Read the configuration, show it, and refuse what `kernelcup serve` refuses.

    The database is checked too, but never created or changed. Every error names its file and
    key. For secrets only whether they are set is shown.
    """
    from sqlalchemy import make_url

    from kernelcup.http.state import given_secret
    from kernelcup.launchers.local.launcher import check_torch

    settings = wiring.load_config(config)
    if judge:
        wiring.check_devices(settings)
        check_torch()
    given_secret(settings)
    state = state_of(settings)
    server = settings.server
    facts: dict[str, Any] = {
        "file": str(settings.file) if settings.file else None,
        "data_dir": str(settings.data_dir),
        "database": repr(make_url(settings.database_url)),
        "database.state": state,
        "server.host": server.host,
        "server.port": server.port,
        "server.url": server.public_url,
        "server.processes": server.processes,
        "devices": [device.name for device in settings.devices],
        "signin": [provider.name for provider in settings.signin],
        "sandbox.required": settings.sandbox_required,
        "secrets": wiring.secrets_set(settings),
        "warnings": wiring.config_warnings(settings),
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    warnings, secrets = facts.pop("warnings"), facts.pop("secrets")
    for key, value in facts.items():
        shown = ", ".join(map(str, value)) or "none" if isinstance(value, list) else value
        typer.echo(plain(f"{key}: {shown if shown is not None else 'none; all defaults'}"))
    lines = [f"{name}: {'set' if is_set else 'not set'}" for name, is_set in secrets.items()]
    lines += [plain(f"warning: {warning}") for warning in warnings]
    typer.echo("\n".join([*lines, "the configuration can be used"]))
