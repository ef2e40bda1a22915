"""Determine which of a task's files a submission must not see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from kernelcup.domain import Task
from kernelcup.tasks.manifest.c_interface import ENDINGS, REFERENCES, included
from kernelcup.tasks.manifest.python_source import BrokenSource, local_imports, parse
from kernelcup.tasks.manifest.reference import REFERENCE

PUBLIC_FILES = ("task.py", "utils.py", "task.h", "utils.h")
"""Files that submissions use by convention."""


def private_files(task: Task) -> list[str]:
    """Return the reference, the task's own harness, and every file that only these import or include."""
    uses = {name: _used(name, text, task.sources) for name, text in task.sources.items()}
    others = task.cuda.sources if task.cuda is not None else []
    secrets = {
        name for name in (REFERENCE, *REFERENCES, task.main, task.baseline, *others) if name in task.sources
    }
    judged = _closure(secrets, uses)
    shared = {name for name in PUBLIC_FILES if name in task.sources}
    shared |= task.sources.keys() - judged
    for text in task.templates.values():
        shared |= _used(task.submission_name, text, task.sources)
    return sorted(secrets | (judged - _closure(shared - secrets, uses, stop=secrets)))


def _used(name: str, text: str, sources: Mapping[str, str]) -> set[str]:
    """Return those of ``sources`` that a file imports or includes."""
    if name.endswith(ENDINGS):
        beside = PurePosixPath(name).parent
        return {str(place / each) for each in included(text) for place in (beside, PurePosixPath())} & set(
            sources
        )
    tree = parse(text) if name.endswith(".py") else BrokenSource((1, 1), "")
    return set() if isinstance(tree, BrokenSource) else local_imports(tree, sources)


def _closure(start: Iterable[str], uses: Mapping[str, set[str]], stop: Iterable[str] = ()) -> set[str]:
    """Return ``start`` and all files that they use, directly or indirectly, without following ``stop``."""
    reached = set(start)
    waiting = list(reached)
    while waiting:
        fresh = uses.get(waiting.pop(), set()) - reached - set(stop)
        reached |= fresh
        waiting += fresh
    return reached
