"""Generate a template for a task that has none, from the signature of its reference."""

from __future__ import annotations

import ast

from kernelcup.domain import Task, TaskForm
from kernelcup.tasks.manifest.python_source import BrokenSource, parse
from kernelcup.tasks.manifest.reference import REFERENCE

KNOWN = frozenset({"torch", "list", "tuple", "dict", "int", "float", "bool", "str", "None"})
"""Names that an annotation of the template may use."""

TEMPLATE = '''\
"""A starting point. The right answer is what ref_kernel in {reference} returns."""

import torch


def custom_kernel({argument}){returns}:
    raise NotImplementedError("write your kernel here")
'''


def made_template(task: Task) -> str | None:
    """Return a template for a single-file task without one; None if the task has its own."""
    if task.templates or task.form is not TaskForm.SINGLE_FILE:
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
    return TEMPLATE.format(reference=REFERENCE, argument=argument, returns=returns)


def _annotation(before: str, node: ast.expr | None) -> str:
    """Return an annotation, if the template can use it without further imports."""
    if node is None:
        return ""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return f"{before}{ast.unparse(node)}" if names <= KNOWN else ""
