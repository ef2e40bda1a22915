"""Check that ``reference.py`` defines what the harness calls, and that the cases fit it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelcup.tasks.manifest.python_source import BrokenSource, Signature, find, parse
from kernelcup.tasks.manifest.size_limits import MAX_PYTHON_BYTES
from kernelcup_harness.protocol import HarnessKind

if TYPE_CHECKING:
    from kernelcup.tasks.manifest.problems import Findings
    from kernelcup.tasks.manifest.schema import TaskShape
    from kernelcup.tasks.sources.files import Sources

REFERENCE = "reference.py"
Modules = dict[str, ast.Module]


def parse_sources(sources: Sources, findings: Findings) -> Modules:
    """Return the syntax trees of the task's Python files; add problems for files that are not Python."""
    modules, size = {}, 0
    for name, text in sources.texts.items():
        if not name.endswith(".py"):
            continue
        if size + len(text) > MAX_PYTHON_BYTES:
            others = "" if len(text) > MAX_PYTHON_BYTES else " with the other files"
            large = f"is larger than {MAX_PYTHON_BYTES >> 10} KiB{others}, too large for Python"
            findings.elsewhere(sources.labels[name], (1, 1), large)
        elif isinstance(tree := parse(text), BrokenSource):
            findings.elsewhere(sources.labels[name], tree.position, tree.text)
        else:
            modules[name], size = tree, size + len(text)
    return modules


def check_reference(
    shape: TaskShape, sources: Sources, modules: Modules, harness: HarnessKind, findings: Findings
) -> None:
    """Add problems for missing functions in ``reference.py``, and for cases that do not fit it.

    A task's own harness may use other names for everything; then only existing functions are checked.
    """
    standard = harness is HarnessKind.STANDARD
    if REFERENCE not in sources.listed and standard:
        findings.at_key(("files",), f"lists no `{REFERENCE}`, which the standard harness needs")
    if REFERENCE not in modules:
        return
    generate_input = find(modules, REFERENCE, "generate_input")
    check = find(modules, REFERENCE, "check_implementation")
    label = sources.labels[REFERENCE]
    if standard:
        for name, found in (("generate_input", generate_input), ("check_implementation", check)):
            if found is None:
                text = f"has no top-level `{name}`, which the standard harness calls"
                findings.elsewhere(label, (1, 1), text)
        if isinstance(check, Signature) and not shape.multi_gpu:
            check_arity(check, 2, "check_implementation(data, output)", sources.labels[check.file], findings)
    if isinstance(generate_input, Signature):
        _check_generator(shape, generate_input, sources.labels[generate_input.file], findings)


def fits_standard_harness(sources: Mapping[str, str]) -> bool:
    """Return whether a Python task defines everything that the standard harness calls."""
    trees = {name: parse(text) for name, text in sources.items() if name.endswith(".py")}
    modules = {name: tree for name, tree in trees.items() if not isinstance(tree, BrokenSource)}
    if REFERENCE not in modules:
        return False
    check = find(modules, REFERENCE, "check_implementation")
    fits = not isinstance(check, Signature) or check.accepts_positional(2)
    return check is not None and fits and find(modules, REFERENCE, "generate_input") is not None


def line_on_gpu(sources: Mapping[str, str]) -> int | None:
    """Return the first line of ``generate_input``, or of functions that it calls, that needs a GPU; None if none does.

    A file that checks for a GPU (``is_available``) is assumed to work without one.
    """
    text = sources.get(REFERENCE, "")
    tree = parse(text)
    if isinstance(tree, BrokenSource) or "is_available" in text:
        return None
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    waiting, seen, lines = ["generate_input"], set[str](), list[int]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Name):
                waiting.append(node.id)
            elif isinstance(node, ast.Call) and _asks_for_gpu(node):
                lines.append(node.lineno)
    return min(lines, default=None)


def _asks_for_gpu(call: ast.Call) -> bool:
    """Return whether a call names the device ``cuda``, or is ``.cuda()``."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "device")]
    values = [each.value for each in given if isinstance(each, ast.Constant)]
    return any(isinstance(value, str) and value.partition(":")[0] == "cuda" for value in values)


def check_arity(signature: Signature, count: int, call: str, label: str, findings: Findings) -> None:
    """Add a problem if a function cannot be called as ``call``, with ``count`` arguments by position."""
    if not signature.accepts_positional(count):
        findings.elsewhere(label, signature.position, f"cannot be called as `{call}`")


def _check_generator(shape: TaskShape, signature: Signature, label: str, findings: Findings) -> None:
    # It loads the YAML and the schema's libraries, which a look at a stored task does not need.
    from kernelcup.tasks.manifest.cases import check_calls

    for name in signature.positional_only:
        text = f"`generate_input` is called by name, and `{name}` can only be given by position"
        findings.elsewhere(label, signature.position, text)
    filled = {"seed", "rank"} if shape.multi_gpu else {"seed"}
    check_calls(shape, signature, findings, filled)
