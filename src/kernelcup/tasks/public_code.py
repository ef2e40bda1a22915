"""The code that judges, which is public."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from kernelcup.domain import Task
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import HarnessKind

FIRST = (
    "judge/main.py",
    "judge/caller.py",
    "judge/checks.py",
    "judge/structure.py",
    "contestant/main.py",
    "judge/wall_clock.py",
    "judge/replay/clean_room.py",
    "timer/start_gun.py",
)
"""The files to show first."""


def judging_code(task: Task, judged_by: HarnessKind) -> dict[str, str]:
    """Return all code that judges a task, by file name: no part of the evaluation is hidden.

    Raise ``NotFound`` if the task's own harness is asked for and it has none.
    """
    if judged_by is HarnessKind.OWN:
        if task.main is None:
            raise NotFound(f"{task.name} brings no harness of its own; `standard` judges it")
        return {task.main: task.sources[task.main]}
    folder = files("kernelcup_harness")
    names = dict.fromkeys([*FIRST, *sorted(sources(folder))])
    return {f"kernelcup_harness/{name}": (folder / name).read_text(encoding="utf-8") for name in names}


def sources(folder: Traversable, prefix: str = "") -> Iterator[str]:
    """Yield the paths of all Python files of a package, relative to it."""
    for each in folder.iterdir():
        if each.is_dir():
            yield from sources(each, f"{prefix}{each.name}/")
        elif each.name.endswith(".py"):
            yield prefix + each.name
