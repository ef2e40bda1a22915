"""The classes of values in a task's private files, which submissions get without the rest of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernelcup.tasks.manifest.python_source import BrokenSource, parse

HEADER = '''\
"""The classes of this file that inputs and outputs may be made of. The rest stays with the judge."""

import collections
import dataclasses
import typing
'''


def shown_files(private: Mapping[str, str]) -> dict[str, str]:
    """Return what submissions see of each private file that defines such classes at its top level.

    Fields keep their names and order, and defaults that are constants; other defaults become None. Methods are
    left out.
    """
    shown = {}
    for name, text in private.items():
        tree = parse(text) if name.endswith(".py") else BrokenSource((1, 1), "")
        if not isinstance(tree, BrokenSource) and (classes := list(_classes(tree))):
            shown[name] = "\n\n\n".join([HEADER.rstrip(), *classes]) + "\n"
    return shown


def _classes(tree: ast.Module) -> Iterator[str]:
    """Yield the definitions, each after those it derives from."""
    known: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and (head := _head(node, known)):
            known.add(node.name)
            fields = [f"    {_field(each)}" for each in node.body if _is_field(each)]
            yield "\n".join([head, *(fields or ["    pass"])])
        elif isinstance(node, ast.Assign) and (made := _made(node)):
            yield made


def _head(node: ast.ClassDef, known: set[str]) -> str:
    """Return the lines above a class's fields, empty if it is no dataclass, ``NamedTuple`` or plain class."""
    bases = [_name(each) for each in node.bases]
    if not (bases or node.decorator_list or node.keywords):
        return f"class {node.name}:"
    if bases == ["NamedTuple"]:
        return f"class {node.name}(typing.NamedTuple):"
    decorator = next((each for each in node.decorator_list if _name(each) == "dataclass"), None)
    if decorator is None or not set(bases) <= known:
        return ""
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    options = ", ".join(f"{each.arg}={ast.unparse(each.value)}" for each in given if _is_constant(each.value))
    return f"@dataclasses.dataclass({options})\nclass {node.name}({', '.join(bases)}):"


def _made(node: ast.Assign) -> str:
    """Return an assignment of ``namedtuple(...)`` with constant arguments, empty for any other."""
    call, target = node.value, node.targets[0]
    if not (isinstance(call, ast.Call) and _name(call) == "namedtuple" and isinstance(target, ast.Name)):
        return ""
    if not all(_is_constant(each) for each in [*call.args, *(each.value for each in call.keywords)]):
        return ""
    arguments = [ast.unparse(each) for each in [*call.args, *call.keywords]]
    return f"{target.id} = collections.namedtuple({', '.join(arguments)})"


def _is_field(node: ast.stmt) -> bool:
    is_named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    return is_named and "ClassVar" not in ast.unparse(node)


def _field(node: ast.stmt) -> str:
    assert isinstance(node, ast.AnnAssign)
    if node.value is None:
        return f"{ast.unparse(node.target)}: object"
    return f"{ast.unparse(node.target)}: object = {ast.unparse(node.value) if _is_constant(node.value) else None}"


def _is_constant(node: ast.expr) -> bool:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return not isinstance(value, (dict, set))


def _name(node: ast.expr) -> str:
    """Return the last part of a dotted name, also of a call of it."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""
