"""The code that judges, which is public."""

from __future__ import annotations

from importlib.resources import files

from kernelcup.domain import Task
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import HarnessKind

FIRST = ("judge.py", "calls.py", "comparing.py", "timing.py", "contestant.py")
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
    rest = sorted(path.name for path in folder.iterdir() if path.name.endswith((".py", ".cu")))
    names = dict.fromkeys([*FIRST, *rest])
    return {f"kernelcup_harness/{name}": (folder / name).read_text(encoding="utf-8") for name in names}
