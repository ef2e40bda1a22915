"""Determine which of a task's files a submission must not see."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from kernelcup.domain import Task
from kernelcup.tasks.manifest.python_source import BrokenSource, local_imports, parse
from kernelcup.tasks.manifest.reference import REFERENCE

PUBLIC_MODULES = ("task.py", "utils.py")
"""Modules that submissions import by convention."""


def private_files(task: Task) -> list[str]:
    """Return the reference, the task's own harness, and every module that only these import."""
    trees = _parse_all(task.sources)
    secrets = {name for name in (REFERENCE, task.main) if name in task.sources}
    judged = _closure(secrets, trees)
    shared = {name for name in PUBLIC_MODULES if name in task.sources}
    shared |= task.sources.keys() - judged
    for template in _parse_all(task.templates).values():
        shared |= local_imports(template, task.sources)
    return sorted(secrets | (judged - _closure(shared - secrets, trees, stop=secrets)))


def _parse_all(texts: Mapping[str, str]) -> dict[str, ast.Module]:
    parsed = {name: parse(text) for name, text in texts.items()}
    return {name: tree for name, tree in parsed.items() if not isinstance(tree, BrokenSource)}


def _closure(start: Iterable[str], trees: Mapping[str, ast.Module], stop: Iterable[str] = ()) -> set[str]:
    """Return ``start`` and all modules that they import, directly or indirectly, without following ``stop``."""
    reached = set(start)
    waiting = list(reached)
    while waiting:
        name = waiting.pop()
        fresh = local_imports(trees[name], trees) - reached - set(stop) if name in trees else set()
        reached |= fresh
        waiting += fresh
    return reached
