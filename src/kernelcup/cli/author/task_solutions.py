"""``kernelcup task check``: a task's own templates and solutions, judged as the task itself is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelcup.cli import wiring
from kernelcup.cli.compete import compiled
from kernelcup.cli.compete.run import judge
from kernelcup.domain import Task
from kernelcup.errors import LaunchError, Problem
from kernelcup_harness.protocol import Backend, HarnessKind, Mode, Reason, RunReport, SourceTree, Verdict

if TYPE_CHECKING:
    from kernelcup.config.settings import Config

EXPECTED = "expected.yml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A file of the task that can be judged by it."""

    name: str
    text: str
    place: str
    """Its path in problem lines."""
    wanted: Verdict | None = None
    """The verdict that it must get, if that is known."""
    is_wrong: bool = False
    """Whether any verdict but an acceptance will do."""
    is_template: bool = False
    """Whether it has to run; its answer may be left to the one that begins with it."""


def templates_of(task: Task, place: Path) -> Iterator[Candidate]:
    """Yield a task's templates."""
    for language, text in task.templates.items():
        yield Candidate(name=f"template {language}", text=text, place=str(place), is_template=True)


def solutions_of(task: Task, place: Path) -> Iterator[Candidate]:
    """Yield the files below ``solutions`` of a task's folder.

    ``expected.yml`` names the verdict of a file; without it a name or a folder that begins with ``correct`` or
    ``wrong`` says what must come of it.
    """
    folder = (place if place.is_dir() else place.parent) / "solutions"
    named = expected_verdicts(task, folder / EXPECTED)
    ending = Path(task.submission_name).suffix
    for file in sorted(folder.rglob(f"*{ending}")):
        name = file.relative_to(folder).as_posix()
        if named is not None and name not in named:
            continue
        yield Candidate(
            name=name,
            text=file.read_text(encoding="utf-8"),
            place=str(file),
            wanted=named[name]
            if named is not None
            else Verdict.ACCEPTED
            if name.startswith("correct")
            else None,
            is_wrong=name.startswith("wrong"),
        )


def expected_verdicts(task: Task, file: Path) -> dict[str, Verdict] | None:
    """Return the verdicts in test mode under the task's harness by file; None if nothing names them.

    Files with limits or rules of their own are left out.
    """
    from kernelcup.tasks.manifest.yaml_text import read_yaml

    if not file.is_file():
        return None
    found: dict[str, Verdict] = {}
    content = read_yaml(file.read_bytes()).value
    for name, value in (content if isinstance(content, dict) else {}).items():
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, Mapping) and is_plain_test(entry, task.harness.value):
                found.setdefault(name, Verdict(entry["verdict"]))
    return found


def is_plain_test(entry: Mapping[str, object], harness: str) -> bool:
    """Return whether an expectation is about an ordinary test under this harness."""
    own_terms = {"limits", "rules"} & entry.keys()
    usual = entry.get("mode", Mode.TEST.value) == Mode.TEST.value and entry.get("harness", harness) == harness
    return usual and not own_terms and entry.get("verdict") in set(Verdict)


SYMMETRIC_MEMORY = "torch.distributed._symmetric_memory"
"""What a file imports that lets kernels reach other GPUs; nothing stands in for it."""


def judged(task: Task, candidate: Candidate, settings: Config, *, quiet: bool) -> tuple[Problem | None, str]:
    """Judge a file once in test mode, by the harness that the task chooses. Return a problem, or what came of it."""
    from kernelcup.cli.show.working import working

    device = wiring.pick_device(settings, None)
    own_name = candidate.place.endswith(candidate.name)
    entry = Path(candidate.place if own_name else task.submission_name_of(candidate.text)).name
    tree = SourceTree.of(candidate.text, entry)
    if compiled.lacks_gpu(tree, device):
        return compiled_only(task, candidate, tree, settings)
    if SYMMETRIC_MEMORY in candidate.text and device.backend is not Backend.CUDA:
        return None, f"{candidate.name}: not decided here: symmetric memory needs GPUs"
    is_right = candidate.wanted is Verdict.ACCEPTED
    with working(f"{task.name}: {candidate.name} on {device.name}", quiet=quiet) as say:
        report = judge(
            task, tree, Mode.TEST, device, settings=settings, quiet=True, say=say, test_twins=is_right
        )
    if said := compiled.only_compiled(report):
        return None, f"{candidate.name}: {said}"
    fault = fault_of(candidate, report)
    if fault:
        return Problem(file=candidate.place, text=f"{candidate.name}: {fault}"), ""
    remarks = [case.message for stage in report.stages for case in stage.cases if case.message and is_right]
    return None, "; ".join([f"{candidate.name}: {report.verdict.value}", *remarks[:1]])


def reference_of(task: Task, place: Path) -> tuple[Candidate, SourceTree] | None:
    """Return a task's functions in CUDA C++, as a file that can be compiled; None under a harness of its own."""
    from kernelcup.tasks.manifest import c_interface

    name = c_interface.reference_of(task.sources)
    if name is None or task.harness is HarnessKind.OWN:
        return None
    text = task.sources[name]
    tree = SourceTree(entry=name, files=dict(task.sources))
    return Candidate(name=name, text=text, place=str(place / name), wanted=Verdict.ACCEPTED), tree


def compiled_only(
    task: Task, candidate: Candidate, tree: SourceTree, settings: Config
) -> tuple[Problem | None, str]:
    """Compile a file that only a GPU can run. Return a problem, or what came of it.

    What a machine lacks, such as a library's headers, is no problem of the task.
    """
    try:
        made = compiled.compile_here(task, tree, (), settings, task.devices)
    except LaunchError as error:
        return None, f"{candidate.name}: not decided here: {error}"
    if made.error and candidate.wanted is not Verdict.COMPILE_ERROR and not candidate.is_wrong:
        line = made.diagnostics[0].line if made.diagnostics else 1
        return Problem(file=candidate.place, line=line, text=f"{candidate.name}: {made.error}"), ""
    return None, f"{candidate.name}: {Verdict.COMPILE_ERROR.value if made.error else compiled.NOT_RUN}"


def fault_of(candidate: Candidate, report: RunReport) -> str:
    """Return why a verdict is a fault of the task, empty if it is none."""
    verdict, text = report.verdict, report.message
    if report.reason is Reason.NEAR_TWIN:
        text += "\nIf no input of the task is changed so, write `near_twins: false`."
    if candidate.wanted is not None and verdict is not candidate.wanted:
        return f"gets {verdict.value} where {candidate.wanted.value} is expected: {text}"
    if candidate.is_wrong and verdict is Verdict.ACCEPTED:
        return "is accepted, though its name says that it is wrong"
    runs = verdict in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER) or "NotImplementedError" in text
    if candidate.is_template and not runs:
        return f"gets {verdict.value}; a template has to run, and may leave out the answer: {text}"
    if verdict is Verdict.INTERNAL_ERROR and candidate.wanted is not Verdict.INTERNAL_ERROR:
        return f"the task cannot judge it here: {text}"
    return ""
