"""The code that judges, which is public."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from kernelcup.domain import Language, Task
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import HarnessKind

PACKAGE = "kernelcup_harness"
OVERVIEW = "how_it_is_judged.py"
"""The file to read first: the functions that decide, out of their modules."""
HEAD = """\
# How a submission in {language} is judged: the functions that decide, as they are in the package kernelcup_harness.
# `self` and what is called lie in the named modules; docs/explanation/read-the-judge.md leads through all of them.
"""
LOADED = {
    Language.PYTHON: [("submission/python.py", "Python.load")],
    Language.CUDA: [("submission/cuda/library.py", "CompiledKernel.__call__")],
}
PARTS = {
    "What is called: the contestant, a process of its own that holds no seed and no expected answer": [],
    "Inputs, calls and verdicts: the judge": [
        ("core/judge.py", "Judge.judge"),
        ("core/judge.py", "Judge._call"),
        ("core/judge.py", "Judge.attempt"),
        ("core/check.py", "Checks.make_input"),
    ],
    "How an answer is checked: the first fault ends the case": [
        ("core/check.py", "Checks.fault"),
        ("core/check.py", "Checks._number_fault"),
        ("core/ranges.py", "first_unexpected"),
        ("core/check.py", "Checks._checked"),
    ],
    "How a call is timed on a GPU: what it launched is captured, and launched again without any code of the host": [
        ("clocks/replay/stage.py", "preparing"),
        ("clocks/replay/clean_room.py", "CleanRoom.verify"),
        ("clocks/replay/timed_replays.py", "TimedReplays.sample"),
        ("device/nvidia/start_gun.py", "StartGun._try"),
    ],
}


def judging_code(task: Task, judged_by: HarnessKind) -> dict[str, str]:
    """Return all code that judges a task, by file name: no part of the evaluation is hidden.

    Raise ``NotFound`` if the task's own harness is asked for and it has none.
    """
    if judged_by is HarnessKind.OWN:
        if task.main is None:
            raise NotFound(f"{task.name} brings no harness of its own; `standard` judges it")
        return {task.main: task.sources[task.main]}
    return our_code(task.lang)


def our_code(language: Language) -> dict[str, str]:
    """Return the standard harness by file name, and first an overview for submissions in a language."""
    folder = files(PACKAGE)
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in sorted(sources(folder))}
    return {OVERVIEW: overview(texts, language)} | {f"{PACKAGE}/{name}": texts[name] for name in texts}


def overview(texts: dict[str, str], language: Language) -> str:
    """Return the functions that decide, with their modules. Raise ``LookupError`` for one that is gone."""
    lines = [HEAD.format(language=language.label)]
    for title, functions in PARTS.items():
        lines.append(f"# ---- {title}\n")
        for name, function in functions or LOADED[language]:
            lines.append(f"# {PACKAGE}/{name}: {function}\n{source_of(texts[name], function)}\n")
    return "\n".join(lines)


def source_of(text: str, wanted: str) -> str:
    """Return the source of a function by its qualified name, not indented. Raise ``LookupError`` without one."""
    scope: list[ast.stmt] = ast.parse(text).body
    found: ast.stmt | None = None
    for part in wanted.split("."):
        named = (each for each in scope if getattr(each, "name", None) == part)
        found = next(named, None)
        scope = getattr(found, "body", [])
    if found is None:
        raise LookupError(f"there is no function {wanted}")
    return textwrap.dedent("\n".join(text.splitlines()[found.lineno - 1 : found.end_lineno]))


def sources(folder: Traversable, prefix: str = "") -> Iterator[str]:
    """Yield the paths of all Python files of a package, relative to it."""
    for each in folder.iterdir():
        if each.is_dir():
            yield from sources(each, f"{prefix}{each.name}/")
        elif each.name.endswith((".py", ".h")):
            yield prefix + each.name
