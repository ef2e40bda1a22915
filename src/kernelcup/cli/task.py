"""``kernelcup task``: write tasks, check them, look at them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli.options import ConfigOption, HarnessOption, JsonOption, TaskArgument

if TYPE_CHECKING:
    from kernelcup.domain import Task
    from kernelcup.errors import Problem
    from kernelcup_harness.protocol import RunReport

app = typer.Typer(help="Write tasks, check them, look at them.", no_args_is_help=True)

# Answers nothing, so that the judge has to make and carry every input and every expected output.
NULL_SUBMISSION = "def custom_kernel(data):\n    return None\n"
HARNESS_FILES = (
    "judge.py",
    "calls.py",
    "contestant.py",
    "timing.py",
    "comparing.py",
    "task_code.py",
    "wire.py",
)


@app.command()
def check(
    path: TaskArgument,
    run: Annotated[
        bool,
        typer.Option("--run/--no-run", help="Also make every input once and see that it can be carried."),
    ] = True,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Report every problem of a task or problem set as FILE:LINE:COLUMN: KEY: what is wrong.

    Exit code 0 if there is none, 3 otherwise.
    """
    from kernelcup.cli import exits, platform
    from kernelcup.tasks.check import check_path

    place = platform.task_path(path)
    problems = list(check_path(place))
    ran = not problems and run and place.suffix not in (".yaml", ".yml")
    if ran:
        problems += try_run(place, config)
    if as_json:
        body = [
            {"file": p.file, "line": p.line, "column": p.column, "key": p.key, "text": p.text}
            for p in problems
        ]
        typer.echo(json.dumps({"path": str(place), "problems": body}))
    elif problems:
        for problem in problems:
            typer.echo(str(problem))
    else:
        typer.echo(
            f"{place}: no problems" + ("; every input and expected output was made once" if ran else "")
        )
    raise typer.Exit(exits.USER_ERROR if problems else exits.OK)


def try_run(place: Path, config: Path | None) -> list[Problem]:
    """Have every case's input and expected output made and carried once."""
    from importlib.util import find_spec

    from kernelcup.errors import Problem
    from kernelcup.tasks.loader import load_task
    from kernelcup_harness.protocol import HarnessKind, Verdict

    task = load_task(place)
    if task.harness is HarnessKind.OWN or find_spec("torch") is None:
        return []
    report = null_run(task, config)
    file = str(place / "task.yml") if place.is_dir() else str(place)
    if report.verdict is Verdict.ACCEPTED:
        return [Problem(file=file, text="the checker accepts a kernel that returns None")]
    if report.verdict is Verdict.INTERNAL_ERROR:
        return [Problem(file=file, text=report.message)]
    return []


def null_run(task: Task, config: Path | None) -> RunReport:
    """Judge a kernel that answers nothing on all cases, benchmarks and hidden ones included."""
    import dataclasses

    from kernelcup.cli import platform
    from kernelcup.cli.judging import judge
    from kernelcup_harness.protocol import Mode

    settings = platform.load_config(config)
    everything = [*task.tests, *task.benchmarks, *task.hidden_tests, *task.hidden_benchmarks]
    whole = dataclasses.replace(task, tests=everything)
    device = platform.pick_device(settings, None)
    return judge(whole, NULL_SUBMISSION, Mode.TEST, device, config=config, quiet=True)


@app.command()
def new(
    directory: Annotated[Path, typer.Argument(help="A folder that is not there yet, or empty.")],
    name: Annotated[str | None, typer.Option(help="Name of the task; default: the folder's.")] = None,
) -> None:
    """Write a small task that works, to start from."""
    from kernelcup.tasks.scaffold import new_task

    for path in new_task(directory, name=name):
        typer.echo(str(path))
    typer.echo(f"Next: kernelcup task check {directory}")
    typer.echo(f"      kernelcup run {directory} {directory}/solutions/correct.py")


@app.command()
def show(
    path: TaskArgument,
    file: Annotated[str | None, typer.Option("--file", help="Print one of its files.")] = None,
    harness: Annotated[
        bool, typer.Option("--harness", help="Print the code that judges: ours, or the task's own.")
    ] = False,
    judged_by: Annotated[
        str | None,
        typer.Option("--judged-by", help="With --harness: standard or own, whatever the task says."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a task: statement, files, cases, limits. Hidden cases are counted, not shown."""
    from kernelcup.cli import options, platform

    task = platform.find_task(path)
    if file is not None:
        print_file(task, file)
    elif harness:
        print_harness(task, options.read_harness(judged_by))
    elif as_json:
        typer.echo(json.dumps(without_hidden(task)))
    else:
        describe(task)


@app.command()
def template(
    path: TaskArgument,
    language: Annotated[str | None, typer.Option("--language", "-l", help="Python, Triton, ...")] = None,
) -> None:
    """Print a starting point for a submission."""
    from kernelcup.cli import platform
    from kernelcup.errors import NotFound

    task = platform.find_task(path)
    known = {name.lower(): text for name, text in task.templates.items()}
    wanted = (language or next(iter(task.templates), "")).lower()
    if wanted not in known:
        raise NotFound(
            f"{task.name} has no template for {language!r}; it has {', '.join(task.templates) or 'none'}"
        )
    typer.echo(known[wanted], nl=False)


def print_file(task: Task, name: str) -> None:
    """Print one of a task's files. Raise ``NotFound``."""
    from kernelcup.errors import NotFound

    if name not in task.sources:
        raise NotFound(f"{task.name} has no file {name!r}; it has {', '.join(sorted(task.sources))}")
    typer.echo(task.sources[name], nl=False)


def print_harness(task: Task, harness: HarnessOption) -> None:
    """Print all code that judges a task: nothing of the evaluation is hidden."""
    from importlib.resources import files

    from kernelcup_harness.protocol import HarnessKind

    if (harness or task.harness) is HarnessKind.OWN and task.main is not None:
        typer.echo(task.sources[task.main], nl=False)
        return
    for name in HARNESS_FILES:
        typer.echo(f"# ==== kernelcup_harness/{name} ====")
        typer.echo((files("kernelcup_harness") / name).read_text(encoding="utf-8"))


def without_hidden(task: Task) -> dict[str, object]:
    """Return a task as JSON, hidden cases as their number."""
    body = dict(task.to_json())
    body["hidden_tests"] = len(task.hidden_tests)
    body["hidden_benchmarks"] = len(task.hidden_benchmarks)
    return {**body, "content_hash": task.content_hash}


def describe(task: Task) -> None:
    """Print what a participant wants to know."""
    from rich.markdown import Markdown

    from kernelcup.cli import render

    out = render.console()
    out.print(Markdown(task.description or f"# {task.name}"))
    out.print()
    facts = {
        "content": task.content_hash[:16],
        "judged by": f"{task.harness.value} harness",
        "files": ", ".join(sorted(task.sources)),
        "templates": ", ".join(task.templates) or "none",
        "proposed devices": ", ".join(task.devices) or "none",
        "ranking by": task.ranking_by.value,
        "limits": f"test {task.limits.test_s} s, benchmark {task.limits.benchmark_s} s, ranked {task.limits.ranked_s} s",
    }
    for name, cases, hidden in (
        ("tests", task.tests, task.hidden_tests),
        ("benchmarks", task.benchmarks, task.hidden_benchmarks),
    ):
        listed = [
            ", ".join(f"{key}={value}" for key, value in case.items()) or "no parameters" for case in cases
        ]
        facts[name] = "; ".join(listed) + (f"; and {len(hidden)} hidden" if hidden else "")
    for key, value in facts.items():
        out.print(f"[bold]{key}[/]: ", end="")
        out.print(value, markup=False)
