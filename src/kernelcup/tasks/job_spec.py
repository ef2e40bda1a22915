"""Build the job for the harness from a task and a submission.

Of a task's private files submissions get the classes of values, without the rest of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from kernelcup.domain import Language, Task, TaskForm
from kernelcup.errors import InvalidFiles, InvalidValue
from kernelcup.tasks.manifest.c_interface import ENDINGS, REFERENCES, included, reference_of
from kernelcup.tasks.manifest.python_source import BrokenSource, local_imports, parse
from kernelcup.tasks.manifest.reference import REFERENCE
from kernelcup_harness.protocol import (
    Backend,
    CheckStyle,
    CudaBuild,
    DeviceFacts,
    HarnessKind,
    JobSpec,
    Limits,
    MeasureRules,
    Mode,
    SourceTree,
)

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


# Without a GPU a call takes long and its time does not count: a few samples are enough.
FOLDER_RULES = MeasureRules()
FOLDER_RULES_WITHOUT_GPU = MeasureRules(max_samples=20, case_budget_s=1.5)
# The older service checked ten inputs, warmed up ten times and timed a hundred calls.
SINGLE_FILE_RULES = MeasureRules(checks=10, warmups=10, min_samples=100, max_samples=100, relative_error=0.0)
SINGLE_FILE_RULES_WITHOUT_GPU = MeasureRules(
    checks=10, warmups=10, min_samples=16, max_samples=100, relative_error=0.0, case_budget_s=10.0
)
# An interpreted kernel may take seconds: a case has a score from two samples on.
EMULATED_SAMPLES = 5

SAME = (
    "data",
    "multi_gpu",
    "near_twins",
    "aliasing",
    *("non_finite", "wide_answers", "any_answer"),
    "dtypes",
    "environment",
    "libraries",
    "reference_s",
)
"""What a job has from its task without a change, by name."""


def build_job_spec(
    task: Task,
    *,
    job_id: str,
    submission: SourceTree,
    mode: Mode,
    backend: Backend,
    harness: HarnessKind | None = None,
    secret_seed: str | None = None,
    build_scope: str = "",
    device: DeviceFacts | None = None,
    seeds_below: int | None = None,
) -> JobSpec:
    """Return the job that judges ``submission``; if ``harness`` is None, the task chooses it.

    ``build_scope`` names the user whose compiled files it may reuse, empty for none. ``device`` has the device's
    figures; a launcher that knows the GPU replaces them with that GPU's own. ``seeds_below`` bounds seeds if the
    task itself does not. Raise ``InvalidValue`` where the task cannot be judged that way.
    """
    _refuse(task, chosen := harness or task.harness)
    ranked, private = mode is Mode.LEADERBOARD, private_files(task)
    return JobSpec(
        job_id=job_id,
        mode=mode,
        backend=backend,
        harness=chosen,
        sources=task.sources,
        submission=placed(submission, task, chosen),
        reference_module=_reference(task) or "reference",
        private_files=private,
        shown_files=shown_files({name: task.sources[name] for name in private if name != task.main}),
        main=task.main,
        cuda=_cuda_build(task, chosen),
        check_style=_check_style(task),
        tests=task.tests,
        benchmarks=task.benchmarks,
        hidden_tests=task.hidden_tests if ranked else [],
        hidden_benchmarks=task.hidden_benchmarks if ranked else [],
        **_score(task),
        limits=_limits(task),
        rules=_rules(task.form, backend),
        public_seed=task.seed,
        seeds_below=seeds_below if task.seeds_below is None else task.seeds_below,
        secret_seed=secret_seed,
        prepare_s=task.prepare_timeout,
        own_share=task.own_share if ranked else None,
        build_scope=build_scope,
        work=task.work,
        hidden_work=task.hidden_work if ranked else [],
        device=device,
        **{name: getattr(task, name) for name in SAME},
    )


def _score(task: Task) -> dict[str, Any]:
    """Return how a score is made."""
    module = task.baseline.removesuffix(".py").replace("/", ".")
    same = {name: getattr(task, name) for name in ("ranking_by", "weights", "partial")}
    return same | {"baseline": module}


def placed(tree: SourceTree, task: Task, harness: HarnessKind) -> SourceTree:
    """Return a submission as it lies beside the task's files. One file alone has the name that the task imports;
    of several, one of that name is added for an own harness if there is none.

    Raise ``InvalidFiles`` if a name is one of the task's.
    """
    entry, name = PurePosixPath(tree.entry), PurePosixPath(task.submission_name)
    if len(tree.files) == 1 and harness is HarnessKind.OWN:
        return SourceTree.of(tree.code, str(name))
    if len(tree.files) == 1:
        return SourceTree.of(tree.code, str(name.with_suffix(entry.suffix.lower() or name.suffix)))
    if harness is HarnessKind.OWN and str(name) not in tree.files:
        passes_on = f"from {'.'.join(entry.with_suffix('').parts)} import *\n"
        if entry.suffix != ".py":
            passes_on = f'#include "{entry}"\n'
        tree = SourceTree(entry=str(name), files={**tree.files, str(name): passes_on})
    if problem := tree.problem(task.sources):
        raise InvalidFiles(f"The files cannot lie beside the task's: {problem}.")
    return tree


def _refuse(task: Task, harness: HarnessKind) -> None:
    if harness is HarnessKind.OWN and task.main is None:
        where = (
            "`config.sources` names no file with `main`"
            if task.lang is Language.CUDA
            else "`config.main` names none"
        )
        raise InvalidValue(f"the task {task.name} brings no harness of its own: {where}")
    if harness is HarnessKind.STANDARD and _reference(task) is None:
        needed = " or ".join(REFERENCES) if task.lang is Language.CUDA else REFERENCE
        raise InvalidValue(f"the task {task.name} has no {needed}, which the standard harness needs")


def _reference(task: Task) -> str | None:
    """Return the module or the file with the task's functions, None if the standard harness finds none."""
    if task.lang is Language.CUDA:
        return reference_of(task.sources)
    return "reference" if REFERENCE in task.sources else None


def _cuda_build(task: Task, harness: HarnessKind) -> CudaBuild:
    """Return what the compiler is asked; the standard harness compiles the submission apart from the task's files."""
    if task.cuda is None:
        return CudaBuild()
    apart = (
        {task.submission_name, _reference(task), task.main}
        if harness is HarnessKind.STANDARD
        else {task.main}
    )
    return replace(task.cuda, sources=[name for name in task.cuda.sources if name not in apart])


def _check_style(task: Task) -> CheckStyle:
    older = task.form is TaskForm.SINGLE_FILE and task.lang is Language.PYTHON
    return CheckStyle.OUTPUT_REFERENCE if older else CheckStyle.DATA_OUTPUT


def _limits(task: Task) -> Limits:
    return Limits(
        test_s=task.limits.test_s, benchmark_s=task.limits.benchmark_s, ranked_s=task.limits.ranked_s
    )


def _rules(form: TaskForm, backend: Backend) -> MeasureRules:
    has_gpu = backend is Backend.CUDA
    if form is TaskForm.SINGLE_FILE:
        rules = SINGLE_FILE_RULES if has_gpu else SINGLE_FILE_RULES_WITHOUT_GPU
    else:
        rules = FOLDER_RULES if has_gpu else FOLDER_RULES_WITHOUT_GPU
    return replace(rules, min_samples=EMULATED_SAMPLES) if backend is Backend.EMULATED else rules


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
