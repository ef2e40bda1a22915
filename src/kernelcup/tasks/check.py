"""The checks of ``kernelcup task check``."""

from __future__ import annotations

from pathlib import Path

from kernelcup.errors import InvalidTask, Problem
from kernelcup.tasks.folder import TASK_FILE
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.problem_set import load_problem_set
from kernelcup.tasks.sources.roots import ENDINGS
from kernelcup_harness.protocol import HarnessKind


def check_path(path: Path, harness: HarnessKind | None = None) -> tuple[Problem, ...]:
    """Return all problems of the task or problem set at ``path``, empty if there are none.

    ``harness`` overrides the harness that a task chooses itself.

    Raise ``NotFound`` if there is nothing at ``path``.
    """
    try:
        if path.suffix in ENDINGS and path.name != TASK_FILE and not path.is_dir():
            load_problem_set(path)
        else:
            load_task(path, harness=harness)
    except InvalidTask as error:
        return error.problems
    return ()
