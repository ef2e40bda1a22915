"""``kernelcup runner``: machines that judge for a service elsewhere."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from kernelcup.cli import logs, wiring
from kernelcup.cli.help import HelpGroup
from kernelcup.cli.options import ConfigOption
from kernelcup.cli.show.output import plain
from kernelcup.errors import ConfigError, InvalidValue

app = typer.Typer(help="Machines that judge for a service elsewhere.", cls=HelpGroup, no_args_is_help=True)

TOKEN = "KERNELCUP_AGENT_TOKEN"


@app.callback()
def root() -> None:
    """Machines that judge for a service elsewhere."""


@app.command("agent")
def agent(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Address of the service.")],
    token: Annotated[
        str | None,
        typer.Option(
            "--token", envvar=TOKEN, help="The machine's token, as `kernelcup admin machines add` prints it."
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Judge on this machine's devices for a service, which needs no way to reach this machine.

    The agent connects out over HTTPS and runs until it is stopped; its jobs then run again elsewhere.
    """
    from kernelcup.agent.agent import agent_here
    from kernelcup.client.transport import Client

    if not token:
        raise InvalidValue(
            f"--token (or {TOKEN}): expected the machine's token; on the server, `kernelcup admin machines add NAME` "
            "prints it"
        )
    logs.set_up()
    settings = wiring.load_config(config)
    wiring.check_devices(settings)
    if not settings.devices_here:
        raise ConfigError("no device is this machine's own: leave `launcher` out of its kernelcup.toml")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Client(server, token) as client:
        names = ", ".join(device.name for device in settings.devices_here)
        text = plain(f"judging for {client.server} on {names}")
        note = settings.data_dir / f"agent-{hashlib.sha256(token.encode()).hexdigest()[:16]}"
        agent_here(settings, client, note).run(stop, connected=lambda: typer.echo(text))


FURTHER = {"allow_extra_args": True, "ignore_unknown_options": True}
NameOption = Annotated[str | None, typer.Option(help="The machine's name; default: its host's.")]
ClassOption = Annotated[
    str | None, typer.Option("--class", help="What machines with equal hardware share, as a label for Ray.")
]


@app.command("up", context_settings=FURTHER)
def up(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the cluster's head.")] = 6379,
    name: NameOption = None,
    host_class: ClassOption = None,
    config: ConfigOption = None,
) -> None:
    """Start a Ray cluster on this machine, whose devices judge, and stay in the foreground.

    A new cluster's token is written to ~/.ray/auth_token; every machine of the cluster needs that file. Options that
    are not known here go to `ray start`.
    """
    from kernelcup.launchers import ray_cluster

    ray_cluster.check_token(os.environ, make=True)
    where = ["--head", f"--port={port}", "--include-dashboard=false"]
    _start_ray(where, name, host_class, context.args, config)


@app.command("join", context_settings=FURTHER)
def join(
    context: typer.Context,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The cluster's head, as HOST:PORT.")],
    name: NameOption = None,
    host_class: ClassOption = None,
    config: ConfigOption = None,
) -> None:
    """Have this machine's devices judge for a Ray cluster, and stay in the foreground.

    The token of `kernelcup runner up` has to be here. Options that are not known here go to `ray start`.
    """
    from kernelcup.launchers import ray_cluster

    ray_cluster.check_token(os.environ, make=False)
    if trouble := ray_cluster.refusal(address, os.environ):
        raise ConfigError(trouble)
    _start_ray([f"--address={address}"], name, host_class, context.args, config)


def _start_ray(
    where: list[str], name: str | None, host_class: str | None, further: list[str], config: Path | None
) -> None:
    """Become `ray start`. Raise ``ConfigError``."""
    from kernelcup.launchers import ray_cluster

    settings = wiring.load_config(config)
    wiring.check_devices(settings)
    command = ray_cluster.command(
        settings.devices_here,
        settings.slot_gpus,
        where=where,
        name=name,
        host_class=host_class or "",
        environments={some for each in settings.devices_here for some in each.environments or ()},
        further=further,
    )
    environ = ray_cluster.environment(os.environ)
    if settings.file is not None:
        environ["KERNELCUP_CONFIG"] = str(settings.file.absolute())
    try:
        os.execve(command[0], command, environ)
    except FileNotFoundError as error:
        raise ConfigError('Ray is not installed: pip install "ray[default]>=2.60"') from error


@app.command("deploy")
def deploy(
    provider: Annotated[str, typer.Argument(help="The installed launcher that starts machines there.")],
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="For a launcher that writes files: the checkout to write them into.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Set a provider up to judge for this server: again after each upgrade of KernelCup.

    Either files are written into a checkout, for you to commit and push, or an app is deployed with a function for
    each device of the configuration; the provider's own client has to be signed in before.
    """
    from kernelcup.launchers import installed

    for line in installed.deploy(provider, wiring.load_config(config), folder):
        typer.echo(plain(line))
