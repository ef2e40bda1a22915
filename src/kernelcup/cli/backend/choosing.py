"""Which backend a command uses: the database of this machine, or a server, by the options of each command."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, get_type_hints

import typer

from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.credentials import Credentials
from kernelcup.cli.options import ConfigOption, LocalOption, ServerOption
from kernelcup.errors import InvalidValue, SignInNeeded

LOCAL_NAMES = ("KERNELCUP_HOME", "KERNELCUP_CONFIG", "KERNELCUP_DATABASE")
"""If any of these is set, commands use the local database even when signed in to a server."""


@contextmanager
def open_backend(server: str | None, local: bool, config: Path | None) -> Iterator[Backend]:
    """Open the backend of a command, from its options and the environment; a server is named on stderr.

    Raises:
        InvalidValue: The options contradict each other.
        ConfigError, StorageUnavailable: The local database cannot be used.
    """
    address = choose(server, local=local, config=config)
    if address is None:
        from kernelcup.cli.backend.local import LocalBackend

        if not local and config is None:
            say_overridden()
        settings = wiring.load_config(config)
        with wiring.open_database(settings) as db:
            yield LocalBackend(settings, db)
        return
    from kernelcup.cli.backend.server import ServerBackend
    from kernelcup.client.transport import Client

    typer.echo(f"server: {address}", err=True)
    token = Credentials.load(os.environ).token(address)
    option = f" --server {address}" if server is not None else ""
    with (
        wiring.pointing_to(f"kernelcup login {address}", SignInNeeded),
        Client(address, token) as client,
    ):
        yield ServerBackend(client, option=option, signed_in=token is not None)


def overriding() -> str | None:
    """Return the set variable that makes commands use this machine's database despite a sign-in."""
    return next((name for name in LOCAL_NAMES if os.environ.get(name)), None)


def say_overridden() -> None:
    """Report on stderr that the signed-in server is not used, and why."""
    name, server = overriding(), Credentials.load(os.environ).default
    if name is not None and server is not None:
        typer.echo(
            f"using this machine's database, because {name} is set; you are signed in to {server}, use it "
            f"with --server {server}",
            err=True,
        )


def choose(server: str | None, *, local: bool, config: Path | None) -> str | None:
    """Return the address of the chosen server, None for this machine's database."""
    if server is not None and (local or config is not None):
        raise InvalidValue(f"--server and {'--local' if local else '--config'} contradict each other")
    if local:
        return None
    if named := server or os.environ.get("KERNELCUP_SERVER"):
        from kernelcup.client.core import read_server

        return read_server(named)
    if config is not None or any(os.environ.get(name) for name in LOCAL_NAMES):
        return None
    return Credentials.load(os.environ).default


P = ParamSpec("P")

KEYWORD = inspect.Parameter.KEYWORD_ONLY
OPTIONS = (
    inspect.Parameter("server", KEYWORD, default=None, annotation=ServerOption),
    inspect.Parameter("local", KEYWORD, default=False, annotation=LocalOption),
    inspect.Parameter("config", KEYWORD, default=None, annotation=ConfigOption),
)


def with_backend(command: Callable[Concatenate[Backend, P], None]) -> Callable[..., None]:
    """Hand a command the :class:`Backend` that its options name, open while the command runs."""

    @functools.wraps(command)
    def run(
        *args: Any,
        server: str | None = None,
        local: bool = False,
        config: Path | None = None,
        **options: Any,
    ) -> None:
        with open_backend(server, local, config) as backend:
            command(backend, *args, **options)

    # Typer reads the options of a command from its signature.
    hints = get_type_hints(command, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()
    own = [each.replace(annotation=hints[each.name]) for each in own]
    run.__signature__ = inspect.Signature([*own, *OPTIONS])  # type: ignore[attr-defined]
    return run
