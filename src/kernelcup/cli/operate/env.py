"""``kernelcup env``: the environments that submissions are built and run in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.options import ConfigOption, JsonOption
from kernelcup.cli.show.output import plain

app = typer.Typer(help="Packages, headers and flags for submissions, from lock files.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `environment` in a task.yml says it.")]


@app.callback()
def root() -> None:
    """Packages, headers and flags for submissions, from lock files."""


@app.command()
def build(
    name: NameArgument,
    lock: Annotated[
        Path | None, typer.Argument(metavar="LOCK", help="The lock file; default: NAME.toml.", exists=True)
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Make the environment NAME from a lock file.

    Everything in it is named by a hash. An equal one is kept; another of that name is replaced.
    """
    from kernelcup.launchers import environments

    folder = wiring.load_config(config).environments_dir
    say = (lambda _line: None) if as_json else (lambda line: typer.echo(plain(line)))
    made = environments.build(folder, name, lock or Path(f"{name}.toml"), say)
    if as_json:
        typer.echo(json.dumps({"name": made.name, "hash": made.hash, "folder": str(made.folder)}))
        return
    typer.echo(plain(f"{made.name} {made.hash[:12]} at {made.folder}"))
    typer.echo(f"Next: a task.yml with `environment: {made.name}`")


@app.command("list")
def list_environments(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the environments of this machine."""
    from kernelcup.launchers import environments

    found = environments.installed(wiring.load_config(config).environments_dir)
    if as_json:
        typer.echo(json.dumps({"environments": [{"name": each.name, "hash": each.hash} for each in found]}))
        return
    for each in found:
        typer.echo(plain(f"{each.name}  {each.hash[:12]}  {each.folder}"))
    if not found:
        typer.echo("none but the default one, which is what pip brought: kernelcup env build makes more")


@app.command()
def origins(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the machine code of this machine's libraries, so that reports name where kernels come from.

    It needs the GPU, and takes minutes. Repeat it when libraries have changed.
    """
    from kernelcup.launchers import environments

    made = environments.list_origins(wiring.load_config(config).environments_dir)
    if as_json:
        typer.echo(json.dumps(made))
        return
    for name, count in made["images"].items():
        typer.echo(f"{name}  {count:,} images")
    if missing := made["missing"]:
        typer.echo(
            f"Kernels of {' and '.join(missing)} ran and were not recognised: the list does not count."
        )


@app.command()
def export(name: NameArgument, config: ConfigOption = None) -> None:
    """Print the lock file of an environment, from which `kernelcup env build` makes it elsewhere."""
    from kernelcup.launchers import environments

    typer.echo(environments.lock_text(wiring.load_config(config).environments_dir, name), nl=False)
