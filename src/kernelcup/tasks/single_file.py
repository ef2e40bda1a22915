"""Load the older form of a task: one file with three functions, in Python, C++ or CUDA C++."""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath

from kernelcup.domain import Language, Task, TaskForm
from kernelcup.errors import Problem
from kernelcup.tasks.manifest.c_interface import SIGNATURES, has_interface, missing
from kernelcup.tasks.manifest.problems import raise_problems, single_problem
from kernelcup.tasks.manifest.python_source import BrokenSource, Signature, find, parse
from kernelcup.tasks.manifest.reference import REFERENCE
from kernelcup.tasks.manifest.yaml_text import undecodable
from kernelcup.tasks.sources.trees import FolderTree, Unreadable
from kernelcup_harness.protocol import CudaBuild

# The number of positional arguments of each function.
CALLS = {
    "generate_input()": 0,
    "ref_kernel(data)": 1,
    "check_implementation(user_output, reference_output)": 2,
}
FILLED = {"seed"}
CUDA_ENDINGS = (".cu", ".cuh", ".cpp")
SINGLE_ENDINGS = (".py", *CUDA_ENDINGS)
KERNELBENCH = {"Model", "get_inputs", "get_init_inputs"}
"""What every problem of KernelBench defines."""
REFERENCES = {"reference_impl", "reference_solution"}
"""Methods of a challenge of LeetGPU, and of a problem of Tensara."""
FROM_OTHERS = (
    "is a problem of another contest (KernelBench, LeetGPU or Tensara); `kernelcup task import FILE` makes a task "
    "folder of it"
)


def load_single_file(path: Path) -> Task:
    """Load the task in the file at ``path``. Raise ``InvalidTask`` with all its problems."""
    place = path.resolve()
    try:
        content = FolderTree(place.parent, "", path.parent).read(place.name)
    except Unreadable as error:
        raise single_problem(str(path), str(error)) from error
    return read_single_file(content, str(path), path.stem)


def read_single_file(content: bytes, label: str, name: str) -> Task:
    """Read a task from the bytes of its file, named ``label`` in problem lines."""
    text = _decode(content, label)
    ending = PurePosixPath(label).suffix.lower()
    if ending in CUDA_ENDINGS:
        return _read_cuda(text, label, name, ending)
    tree = parse(text)
    if isinstance(tree, BrokenSource):
        raise single_problem(label, tree.text, tree.position)
    methods = {getattr(each, "name", "") for node in tree.body for each in getattr(node, "body", ())}
    if {getattr(node, "name", "") for node in tree.body} >= KERNELBENCH or methods & REFERENCES:
        raise single_problem(label, FROM_OTHERS)
    found = {call: _fault(tree, call, count) for call, count in CALLS.items()}
    raise_problems(
        [
            Problem(file=label, line=fault[0][0], column=fault[0][1], text=fault[1])
            for fault in found.values()
            if fault
        ]
    )
    return Task(
        name=name,
        description=_description(tree),
        form=TaskForm.SINGLE_FILE,
        sources={REFERENCE: text},
        tests=[{}],
        benchmarks=[{}],
    )


def _read_cuda(text: str, label: str, name: str, ending: str) -> Task:
    """Read a task with its functions by the C interface."""
    needed = f"a single-file task needs {' and '.join(SIGNATURES)} by kernelcup.h"
    raise_problems(
        [Problem(file=label, text=f"has no `{signature}`; {needed}") for signature in missing(text)]
        or ([] if has_interface(text) else [Problem(file=label, text=f"does not use `kc_args`; {needed}")])
    )
    comment = re.match(r"\s*(?:/\*(.*?)\*/|((?:[ \t]*//[^\n]*\n?)+))", text, re.DOTALL)
    lines = ((comment[1] or comment[2]) if comment else "").splitlines()
    return Task(
        name=name,
        description="\n".join(line.strip().lstrip("/*").strip() for line in lines).strip(),
        form=TaskForm.SINGLE_FILE,
        lang=Language.CUDA,
        cuda=CudaBuild(),
        sources={f"reference{ending}": text},
        submission_name=f"submission{'.cpp' if ending == '.cpp' else '.cu'}",
        tests=[{}],
        benchmarks=[{}],
    )


def _decode(content: bytes, label: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        position, reason = undecodable(content, error)
        raise single_problem(label, reason, position) from error
    if "\0" in text:
        raise single_problem(label, "has a NUL byte; only UTF-8 text is allowed")
    return text


def _fault(tree: ast.Module, call: str, count: int) -> tuple[tuple[int, int], str] | None:
    name = call.partition("(")[0]
    found = find({REFERENCE: tree}, REFERENCE, name)
    if found is None:
        return (1, 1), f"has no top-level `{name}`; a single-file task needs {', '.join(CALLS)}"
    if not isinstance(found, Signature) or _fits(found, count):
        return None
    return found.position, f"cannot be called as `{call}`"


def _fits(signature: Signature, count: int) -> bool:
    if count == 0:
        return not (set(signature.required) - FILLED or signature.positional_only)
    return signature.accepts_positional(count)


def _description(tree: ast.Module) -> str:
    """Return the module's docstring, without characters that cannot be stored."""
    text = ast.get_docstring(tree) or ""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
