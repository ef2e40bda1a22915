"""``kernelcup start``: a folder from which an agent gets to a place, with instructions made from the commands' help."""

from __future__ import annotations

import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli import exit_codes
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import BoardArgument, JsonOption
from kernelcup.cli.show.output import plain
from kernelcup.errors import NotFound

if TYPE_CHECKING:
    from kernelcup.app.results.brief import Brief

EXPLAINED = ("submit", "submissions show", "watch", "profile", "compare")


@with_backend
def start(
    backend: Backend,
    context: typer.Context,
    board: BoardArgument,
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", help="A new or empty folder; default: a folder with the leaderboard's name."
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", "--lang", "-l", help="Python, Triton, cu, ...")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a folder to compete from: a submission to begin with, the task, and the commands in order.

    `AGENTS.md` has the commands, for people and coding agents alike, and `SKILL.md` their help.
    """
    from pydantic import TypeAdapter

    from kernelcup.app.results import brief
    from kernelcup.tasks.starter import find_template
    from kernelcup.tasks.writer import claim, write_task

    found = backend.call(brief.show_brief, name=backend.board(board).name)
    task = backend.whole_task(found.leaderboard)
    chosen = find_template(task, task.templates, language or next(iter(task.templates), ""))
    if chosen is None:
        raise NotFound(f"{task.name} has no such template; it has {', '.join(task.templates) or 'none'}.")
    folder = Path(found.leaderboard) if directory is None else directory
    claim(folder)
    written = write_task(task, folder / "task")
    texts = {
        found.files[chosen]: task.templates[chosen],
        "leaderboard.json": TypeAdapter(brief.Brief).dump_json(found, indent=1).decode(),
        "AGENTS.md": agents_text(found, chosen, written[0].relative_to(folder), backend.option),
        "SKILL.md": skill_text(found, found.files[chosen], context.find_root()),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = [*(str(folder / name) for name in texts), *map(str, written)]
    if as_json:
        typer.echo(json.dumps({"leaderboard": found.leaderboard, "files": files}))
        return
    typer.echo(plain("\n".join([*files, f"Next: cd {shlex.quote(str(folder))}, and follow AGENTS.md"])))


def agents_text(found: Brief, language: str, task: Path, option: str) -> str:
    """Return ``AGENTS.md``; a command that judges here is in it where PyTorch is."""
    from kernelcup.app.results.brief import steps
    from kernelcup.tasks.sources.files import shipped_text

    file = found.files[language]
    way = steps(found.leaderboard, found.devices[0].device, file)
    lines = [f"# {each.text}\n{each.command}{option}" for each in way if each.command]
    if find_spec("torch") is not None:
        place = task.parent if task.name == "task.yml" else task
        lines.insert(
            1, f"# Judge it on this machine first.\n{shlex.join(['kernelcup', 'run', str(place), file])}"
        )
    return shipped_text(
        "starters",
        "AGENTS.md.txt",
        board=found.leaderboard,
        file=file,
        signature=found.signatures.get(language, "custom_kernel"),
        hidden=str(found.task.hidden_tests + found.task.hidden_benchmarks),
        commands="\n".join(lines),
    )


def skill_text(found: Brief, file: str, root: Any) -> str:
    """Return ``SKILL.md``, with the help of the commands."""
    from kernelcup.tasks.sources.files import shipped_text

    return shipped_text(
        "starters",
        "SKILL.md.txt",
        name=re.sub(r"[^a-z0-9]+", "-", found.leaderboard.lower()).strip("-"),
        board=found.leaderboard,
        file=file,
        about="\n".join(f"```text\n{help_of(root, words.split())}\n```\n" for words in EXPLAINED),
        codes="\n".join(f"- {code}: {text}" for code, text in exit_codes.MEANINGS.items()),
    )


def help_of(context: Any, words: list[str]) -> str:
    """Return the help of the command with these words. Raise ``KeyError`` for one that is gone."""
    for word in words:
        command = context.command.get_command(context, word)
        if command is None:
            raise KeyError(word)
        context = typer.Context(command, info_name=word, parent=context)
    return str(context.get_help())
