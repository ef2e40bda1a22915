"""Generate a template for a task that has none, from the signature of its reference."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kernelcup.domain import Language, Task, TaskForm
from kernelcup.tasks.manifest.c_interface import reference_of
from kernelcup.tasks.manifest.python_source import BrokenSource, parse
from kernelcup.tasks.manifest.reference import REFERENCE
from kernelcup.tasks.sources.files import shipped_text
from kernelcup_harness.protocol import HarnessKind

KNOWN = frozenset({"torch", "list", "tuple", "dict", "int", "float", "bool", "str", "None"})
"""Names that an annotation of the template may use."""


def all_templates(task: Task, harness: HarnessKind) -> dict[str, str]:
    """Return the templates of a task, with one that is made for each language that has none.

    For several GPUs none is made in CUDA C++: it would have no means to communicate.
    """
    made = made_template(task)
    texts = dict(task.templates) if made is None else {Language.PYTHON.label: made}
    languages = {task.language_of_template(text) for text in texts.values()}
    if not task.multi_gpu and Language.CUDA in task.accepted(harness) and Language.CUDA not in languages:
        is_host = task.submission_name.endswith(".cpp")
        reference = reference_of(task.sources) or REFERENCE
        name = "template.cpp.txt" if is_host else "template.cu.txt"
        texts[Language.CUDA.label] = shipped_text("starters", name, reference=reference)
    return texts


def find_template(task: Task, templates: Mapping[str, str], wanted: str) -> str | None:
    """Return the name of a template by its name, or by a language: ``py``, ``cu``, ``Python``, ``CUDA``."""
    wanted = wanted.lower()
    named = next((each for each in templates if each.lower() == wanted), None)
    return named or next(
        (
            each
            for each, text in templates.items()
            for language in (task.language_of_template(text),)
            if wanted in (language.value, language.label.lower(), language.label.lower().partition(" ")[0])
        ),
        None,
    )


def made_template(task: Task) -> str | None:
    """Return a template for a single-file task without one; None if the task has its own."""
    if task.templates or task.form is not TaskForm.SINGLE_FILE or REFERENCE not in task.sources:
        return None
    tree = parse(task.sources[REFERENCE])
    functions = [] if isinstance(tree, BrokenSource) else tree.body
    found = next(
        (each for each in functions if isinstance(each, ast.FunctionDef) and each.name == "ref_kernel"), None
    )
    argument, returns = "data", ""
    if found is not None:
        parameters = [*found.args.posonlyargs, *found.args.args]
        argument += _annotation(": ", parameters[0].annotation if parameters else None)
        returns = _annotation(" -> ", found.returns)
    values = {"reference": REFERENCE, "argument": argument, "returns": returns}
    return shipped_text("starters", "template.py.txt", **values)


def _annotation(before: str, node: ast.expr | None) -> str:
    """Return an annotation, if the template can use it without further imports."""
    if node is None:
        return ""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return f"{before}{ast.unparse(node)}" if names <= KNOWN else ""
