"""``kernelcup task``: write tasks, check them, look at them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import options
from kernelcup.cli.author.task_argument import Where, find_task
from kernelcup.cli.author.task_check import check
from kernelcup.cli.options import AnyTaskArgument, ConfigOption, JsonOption, LocalOption, ServerOption
from kernelcup.cli.show.output import plain, without_hidden
from kernelcup.domain import Task
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import Work

if TYPE_CHECKING:
    from kernelcup.domain import TaskInfo

app = typer.Typer(help="Write tasks, check them, look at them.", no_args_is_help=True)
app.command()(check)


@app.command()
def new(
    directory: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    name: Annotated[str | None, typer.Option(help="Name of the task; default: the folder's.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a small working task to start from."""
    from kernelcup.tasks.scaffold import new_task

    print_written(
        new_task(directory, name=name), directory, directory / "solutions/correct.py", as_json=as_json
    )


@app.command()
def example(
    name: Annotated[str, typer.Argument(help="A shipped task; `kernelcup task list` lists them.")],
    directory: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    as_json: JsonOption = False,
) -> None:
    """Copy a shipped task, with all that judges it, to start from."""
    from kernelcup.tasks.scaffold import copy_example
    from kernelcup.tasks.shipped import shipped_tasks

    shipped = shipped_tasks()
    if name not in shipped:
        raise NotFound(f"{name}: no such shipped task ({', '.join(shipped)})")
    written = copy_example(shipped[name], directory)
    first = next((each for each in written if each.name.startswith("template")), None)
    print_written(written, directory, first, as_json=as_json)


@app.command("import")
def import_file(
    file: Annotated[
        Path, typer.Argument(help="A problem of KernelBench, LeetGPU or Tensara, or a LeetGPU solve in .cu.")
    ],
    directory: Annotated[
        Path | None,
        typer.Argument(help="A new or empty folder; default: the file's name without its ending."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a task folder of a problem of another contest; what cannot be carried is named.

    The problem's text is kept in a file of its own, which the reference calls; nothing of it is run.
    """
    from kernelcup.tasks.imports import import_task

    folder = Path(file.stem) if directory is None else directory
    written, notes = import_task(file, folder)
    if as_json:
        typer.echo(json.dumps({"files": [str(each) for each in written], "notes": notes}))
        return
    solution = next((each for each in written if each.parent.name == "solutions"), None)
    print_written(written, folder, solution, as_json=False)
    for note in notes:
        typer.echo(plain(f"Note: {note}"))


def print_written(written: Sequence[Path], directory: Path, solution: Path | None, *, as_json: bool) -> None:
    """Print the files of a new task, and the next commands."""
    if as_json:
        typer.echo(json.dumps({"files": [str(each) for each in written]}))
        return
    for path in written:
        typer.echo(str(path))
    task = directory / "reference_code.py" if directory / "reference_code.py" in written else directory
    typer.echo(f"Next: {shlex.join(['kernelcup', 'task', 'check', str(task)])}")
    if solution is not None:
        typer.echo(f"      {shlex.join(['kernelcup', 'run', str(task), str(solution)])}")


@app.command("list")
def list_all(as_json: JsonOption = False) -> None:
    """List the shipped tasks; `kernelcup board list` lists the leaderboards."""
    from kernelcup.cli.show import tables, terminal
    from kernelcup.tasks.shipped import load_shipped, title_of

    tasks = load_shipped()
    if as_json:
        body = [
            {
                "name": name,
                "title": title_of(task.description),
                "templates": list(task.templates),
                "tests": len(task.tests),
                "benchmarks": len(task.benchmarks),
                "devices": task.devices,
            }
            for name, task in tasks.items()
        ]
        typer.echo(json.dumps({"tasks": body}))
        return
    table = tables.new_table("task", "description", "templates", whole=("task",))
    for name, task in tasks.items():
        table.add_row(*map(tables.cell, (name, title_of(task.description), ", ".join(task.templates) or "-")))
    tables.print_table(terminal.console(), "Shipped tasks", table, drop=("templates",))
    typer.echo("Next: kernelcup task show TASK   (leaderboards have tasks too: kernelcup board list)")


@app.command()
def show(
    path: AnyTaskArgument,
    file: Annotated[str | None, typer.Option("--file", help="Print one of its files.")] = None,
    harness: Annotated[
        bool, typer.Option("--harness", help="Print the judging code: ours, or the task's own.")
    ] = False,
    judged_by: Annotated[
        str | None,
        typer.Option("--judged-by", help="With --harness: standard or own, whatever the task names."),
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Show a task: statement, files, cases, limits.

    Hidden cases are counted, not shown. With --file or --harness, --json prints the texts by name.
    """
    from kernelcup.domain import TaskInfo
    from kernelcup.reporting.rules import answers_text
    from kernelcup.tasks.public_code import judging_code

    task = find_task(path, Where(server=server, local=local, config=config))
    if file is not None:
        print_sources(pick_file(task, file), as_json=as_json)
    elif harness or judged_by is not None:
        print_sources(judging_code(task, options.read_harness(judged_by) or task.harness), as_json=as_json)
    elif as_json:
        typer.echo(json.dumps(without_hidden(task)))
    else:
        describe(TaskInfo.of(task), task.work, devices=task.devices, answers=answers_text(task))


@app.command()
def template(
    path: AnyTaskArgument,
    language: Annotated[
        str | None, typer.Option("--language", "--lang", "-l", help="Python, Triton, cu, ...")
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Print a starting point for a submission."""
    task = find_task(path, Where(server=server, local=local, config=config))
    print_sources(pick_template(task, language), as_json=as_json)


def pick_template(task: Task, language: str | None) -> dict[str, str]:
    """Return one of a task's templates; without a language, the first. Raise ``NotFound``."""
    from kernelcup.tasks.starter import all_templates, find_template

    templates = all_templates(task, task.harness)
    wanted = find_template(task, templates, language or next(iter(templates), ""))
    if wanted is None:
        given = "no template" if language is None else f"no template for {language!r}"
        raise NotFound(f"{task.name} has {given}; it has {', '.join(templates) or 'none'}")
    return {wanted: templates[wanted]}


def pick_file(task: Task, name: str) -> dict[str, str]:
    """Return one of a task's files. Raise ``NotFound``."""
    if name not in task.sources:
        raise NotFound(f"{task.name} has no file {name!r}; it has {', '.join(sorted(task.sources))}")
    return {name: task.sources[name]}


def print_sources(texts: dict[str, str], *, as_json: bool) -> None:
    """Print texts, each under its name if there are several."""
    if as_json:
        typer.echo(json.dumps({"files": texts}))
        return
    for name, text in texts.items():
        if len(texts) > 1:
            typer.echo(f"# ==== {name} ====")
        typer.echo(text, nl=len(texts) > 1)


def describe(
    task: TaskInfo, work: Sequence[Work] = (), *, devices: Sequence[str] | None = None, answers: str = ""
) -> None:
    """Print a task for participants; ``work`` is the least work of each benchmark, ``answers`` their form."""
    from rich.markdown import Markdown
    from rich.text import Text

    from kernelcup.cli.show import terminal
    from kernelcup.reporting.rules import prepare_text

    out = terminal.console()
    text = plain(task.description or f"# {task.name}")
    if out.is_terminal:
        out.print(Markdown(text, hyperlinks=False))
    else:
        terminal.raw(out, text.rstrip())  # a pipe or a file gets the source
    limits = task.limits
    facts = {
        "content": task.content_hash[:16],
        "judged by": f"{task.harness.value} harness",
        "files": ", ".join(task.files),
        "templates": ", ".join(task.templates) or "none",
        **({} if devices is None else {"proposed devices": ", ".join(devices) or "none"}),
        **({"packages": task.packages} if task.packages else {}),
        "ranking by": task.ranking_by.value,
        **({"answers": answers} if answers else {}),
        "limits": f"test {limits.test_s:g} s, benchmark {limits.benchmark_s:g} s, ranked {limits.ranked_s:g} s",
        **({"prepare": prepare_text(task.prepare_timeout)} if task.prepare_timeout else {}),
        "tests": cases_text(task.tests, task.hidden_tests),
        "benchmarks": cases_text(task.benchmarks, task.hidden_benchmarks, work),
    }
    out.print()
    for key, value in facts.items():
        out.print(Text(f"{key}: ", style="bold"), end="")
        out.print(Text(plain(value)))


def cases_text(cases: Sequence[Mapping[str, object]], hidden: int, work: Sequence[Work] = ()) -> str:
    """Return one line for each case, numbered as in reports, with its work if declared."""
    lines = [""]
    for index, case in enumerate(cases):
        parameters = ", ".join(f"{key}={value}" for key, value in case.items())
        told = f"   ({text})" if index < len(work) and (text := work_text(work[index])) else ""
        lines.append(f"  {index}  {parameters or 'no parameters'}{told}")
    if hidden:
        lines.append(f"  and {hidden} hidden")
    return "\n".join(lines)


def work_text(work: Work) -> str:
    """Describe the least work of a case."""
    parts = []
    if work.bytes:
        parts.append(f"reads {work.bytes / 1e6:,.3g} MB")
    if work.written:
        parts.append(f"writes {work.written / 1e6:,.3g} MB")
    if work.flops:
        parts.append(f"{work.flops / 1e9:,.3g} Gflop{' ' + work.precision if work.precision else ''}")
    return ", ".join(parts)
