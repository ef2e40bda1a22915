"""The tasks that ship."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from kernelcup.domain import Task
from kernelcup.tasks.loader import load_task


def shipped_tasks() -> dict[str, Path]:
    """Return the shipped tasks' paths by name."""
    examples = Path(str(files("kernelcup.tasks"))) / "examples"
    folders = sorted(path for path in examples.iterdir() if path.is_dir() and path.name[0] not in "._")
    return {
        path.name: path / "reference_code.py" if (path / "reference_code.py").is_file() else path
        for path in folders
    }


@cache
def load_shipped() -> Mapping[str, Task]:
    """Return the shipped tasks by name."""
    return {name: load_task(path) for name, path in shipped_tasks().items()}


def title_of(description: str) -> str:
    """Return the first line of a task's statement, without heading marks."""
    first = next((line for line in description.splitlines() if line.strip()), "")
    return first.lstrip("#").strip().partition(": ")[0].rstrip(".")
