"""Analyse Python statically: a module's definitions and imports, and functions' signatures."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kernelcup import python_parser
from kernelcup.tasks.manifest.size_limits import MAX_PARSED_BYTES

MAX_HOPS = 5
# These decorators pass calls on unchanged; others may change a function's parameters.
TRANSPARENT_DECORATORS = ("no_grad", "inference_mode", "cache", "lru_cache")


if TYPE_CHECKING:
    from kernelcup.tasks.manifest.yaml_text import Position


@dataclass(frozen=True, slots=True)
class BrokenSource:
    """A text that is not Python, with the place of the error."""

    position: Position
    text: str


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a function, and its position."""

    file: str
    position: Position
    named: tuple[str, ...]
    """Parameters that can be given by name."""
    required: tuple[str, ...]
    positional_only: tuple[str, ...]
    takes_any_name: bool
    least_positional: int
    """The least number of arguments for a call by position."""
    most_positional: int | None
    """None with ``*args``."""

    def accepts_positional(self, count: int) -> bool:
        """Return whether a call with ``count`` arguments by position can work."""
        enough = self.least_positional <= count
        return enough and (self.most_positional is None or count <= self.most_positional)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A defined name that is not a function with a readable signature."""


def parse(text: str) -> ast.Module | BrokenSource:
    """Return the syntax tree, or the error in the text."""
    if len(text) > MAX_PARSED_BYTES:
        return BrokenSource((1, 1), f"is larger than {MAX_PARSED_BYTES >> 20} MiB, too large for Python")
    try:
        return python_parser.parse(text)
    except SyntaxError as error:
        place = (max(error.lineno or 1, 1), max(error.offset or 1, 1))
        return BrokenSource(place, f"is not Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError):
        return BrokenSource((1, 1), "is not Python: it has a NUL byte or is nested too deeply")


def find(trees: Mapping[str, ast.Module], file: str, name: str, hops: int = 0) -> Signature | Opaque | None:
    """Return the definition of ``name`` at the top level of ``file``; None if there is none.

    ``trees`` are the task's modules by file name; imports among them are followed.
    """
    found: Signature | Opaque | None = None
    for statement in _top_level(trees[file].body):
        if (meaning := _meaning(statement, name, trees, file, hops)) is not None:
            found = meaning
    return found


def local_imports(tree: ast.Module, files: Mapping[str, object]) -> set[str]:
    """Return those of ``files`` that the module may import, at any level."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    modules = {module_name(file): file for file in files if file.endswith(".py")}
    return {modules[name] for name in names if name in modules}


def module_name(file: str) -> str:
    """Return the file's name for ``import``."""
    return ".".join(PurePosixPath(file).with_suffix("").parts).removesuffix(".__init__")


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run on import, including those under ``if``, ``try`` and ``with``."""
    waiting = body[::-1]
    while waiting:
        statement = waiting.pop()
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            waiting.extend(reversed(_blocks(statement)))


def _blocks(statement: ast.stmt) -> list[ast.stmt]:
    inner = list(getattr(statement, "body", []))
    for handler in getattr(statement, "handlers", []):
        inner += handler.body
    return [*inner, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]


def _meaning(
    statement: ast.stmt, name: str, trees: Mapping[str, ast.Module], file: str, hops: int
) -> Signature | Opaque | None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return _of_function(statement, file) if statement.name == name else None
    if isinstance(statement, ast.ImportFrom):
        return _of_import(statement, name, trees, hops)
    if isinstance(statement, ast.Import):
        bound = [alias.asname or alias.name.split(".")[0] for alias in statement.names]
        return Opaque() if name in bound else None
    if isinstance(statement, ast.ClassDef):
        return Opaque() if statement.name == name else None
    return Opaque() if name in _assigned(statement) else None


def _of_import(
    statement: ast.ImportFrom, name: str, trees: Mapping[str, ast.Module], hops: int
) -> Signature | Opaque | None:
    """Follow ``from inputs import generate_input`` into the task's own files."""
    source = f"{(statement.module or '').replace('.', '/')}.py"
    for alias in statement.names:
        if alias.name == "*" and (source not in trees or hops >= MAX_HOPS):
            continue  # what it defines is unknown, and usually it does not define the name
        if alias.name != "*" and (alias.asname or alias.name) != name:
            continue
        if source not in trees or hops >= MAX_HOPS:
            return Opaque()
        target = name if alias.name == "*" else alias.name
        found = find(trees, source, target, hops + 1)
        if found is not None or alias.name != "*":
            return found or Opaque()
    return None


def _assigned(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        return set()
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> Signature | Opaque:
    if not all(_decorator_name(each) in TRANSPARENT_DECORATORS for each in node.decorator_list):
        return Opaque()
    arguments = node.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    free = len(by_position) - len(arguments.defaults)
    required = [argument.arg for argument in by_position[:free]]
    needed_names = [
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return Signature(
        file=file,
        position=(node.lineno, node.col_offset + 1),
        named=tuple(argument.arg for argument in [*arguments.args, *arguments.kwonlyargs]),
        required=(*required, *needed_names),
        positional_only=tuple(argument.arg for argument in arguments.posonlyargs[:free]),
        takes_any_name=arguments.kwarg is not None,
        # A required keyword-only parameter makes every call by position fail.
        least_positional=free if not needed_names else len(by_position) + 1,
        most_positional=None if arguments.vararg else len(by_position),
    )


def _decorator_name(node: ast.expr) -> str:
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""
