"""Turn the results of null submissions into problems, warnings and notes about a task."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from kernelcup.clean_text import more
from kernelcup.domain import Task
from kernelcup.errors import Problem
from kernelcup.tasks.folder import TASK_FILE
from kernelcup.tasks.manifest.null_waivers import KEY
from kernelcup.tasks.manifest.python_source import BrokenSource, Signature, find, parse
from kernelcup.tasks.manifest.reference import REFERENCE
from kernelcup.tasks.manifest.yaml_text import Document, read_yaml
from kernelcup_harness.protocol import FEWEST_SEEDS
from kernelcup_harness.protocol.lint import LintFinding, LintReport, Null, Severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Waived:
    """Accepted null submissions of one kind that the task waives."""

    null: str
    reason: str
    cases: list[str]
    """The cases, for example ``tests.0``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The outcome of a task's trial, for people."""

    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    waived: list[Waived] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tried: int = 0
    """The number of answers that the checker was called with."""


def weigh(task: Task, report: LintReport, place: Path) -> Outcome:
    """Return the outcome of ``report`` for the task at ``place``, considering its waivers."""
    lines = _Lines(place)
    counted = [each for each in report.findings if each.null.value not in task.waive_nulls]
    ignored, rest = _ignored(counted)
    groups = _alike(rest)
    errors = [lines.ignored(each) for each in ignored]
    errors += [lines.findings(each) for each in groups if each[0].severity is Severity.ERROR]
    warnings = [lines.findings(each) for each in groups if each[0].severity is Severity.WARNING]
    errors += (
        [problem_at(place, task, report.fault)]
        if report.fault.startswith("ref_kernel ")
        else lines.fault(report)
    )
    if not report.fault:
        warnings += [lines.problem((KEY, name), UNNEEDED) for name in _unneeded(task, report)]
    warnings += lines.seeds(task, report)
    takes = [run_text(task, report)] if report.stage_s else []
    if is_slow(task, report):
        warnings += [lines.problem((), text) for text in takes]
        takes = []
    return Outcome(
        errors=errors,
        warnings=warnings,
        waived=_waived(task, report),
        notes=[*_merged(report.notes), *takes],
        tried=report.tried,
    )


MOST_RUN_S = 90
"""A ranked run that takes longer keeps people and devices waiting."""
HELPS = {
    "generate_input": "have it draw whole tensors, on the device where it can",
    "ref_kernel": "have it call what is quickest, for example torch",
    "check_implementation": "have it compare whole tensors, on the device where it can",
}


def run_text(task: Task, report: LintReport) -> str:
    """Return what a ranked run takes, by which functions, and what helps if that is long."""
    cases = len(task.benchmarks) + len(task.hidden_benchmarks)
    bound = "at most" if len(report.reference_s) == cases else "at least"
    calls = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.calls_s.items())
    text = (
        f"a ranked run takes {bound} {report.stage_s:.0f} s beside its tests if calls are as slow as the "
        f"reference's: {calls}"
    )
    if not is_slow(task, report):
        return text
    slowest = max(report.calls_s, key=report.calls_s.__getitem__)
    limit = min(MOST_RUN_S, task.limits.ranked_s)
    helps = f"make the benchmarks smaller or {slowest} quicker ({HELPS[slowest]})"
    return f"{text}; that is more than {limit} s, so {helps}"


def is_slow(task: Task, report: LintReport) -> bool:
    """Return whether a ranked run takes longer than its limit, or than people wait."""
    return report.stage_s > min(MOST_RUN_S, task.limits.ranked_s)


def problem_at(place: Path, task: Task, text: str) -> Problem:
    """Return the problem of a trial run: at the function that is at fault, else for the whole task."""
    made_by = {
        "the task's input": "generate_input",
        "the task's output": "ref_kernel",
        "ref_kernel ": "ref_kernel",
    }
    function = next((made_by[start] for start in made_by if text.startswith(start)), None)
    parsed = {name: parse(source) for name, source in task.sources.items() if name.endswith(".py")}
    trees = {name: tree for name, tree in parsed.items() if not isinstance(tree, BrokenSource)}
    found = find(trees, REFERENCE, function) if function and REFERENCE in trees else None
    if not isinstance(found, Signature):
        return Problem(file=str(place / "task.yml") if place.is_dir() else str(place), text=text)
    file = str(place / found.file) if place.is_dir() else str(place)
    return Problem(file=file, line=found.position[0], column=found.position[1], text=text)


SEEDS = "seeds_below"
MOST_NAMES = 8
UNNEEDED = "is not needed: no case accepts this null submission"


def outcome_object(outcome: Outcome) -> dict[str, object]:
    """Return the parts of an outcome other than its problems, as shown by ``--json``."""
    return {
        "waived": [dataclasses.asdict(each) for each in outcome.waived],
        "notes": outcome.notes,
        "nulls_tried": outcome.tried,
    }


def _ignored(findings: list[LintFinding]) -> tuple[list[list[LintFinding]], list[LintFinding]]:
    """Return the findings of each part that the checker ignores, and all other findings.

    If a constant is accepted and the answer to an unrelated input as well, or random bytes, the part is not examined
    at all: anything else that is accepted there is the same fault.
    """
    unrelated = (Null.OTHER_SEED, Null.UNINITIALISED)
    noise = {(each.part, _case(each)) for each in findings if each.null in unrelated}
    constant = {(each.part, _case(each)) for each in findings if each.null in (Null.ZEROS, Null.ONES)}
    seen = noise & constant
    parts = list(dict.fromkeys(part for part, _ in seen))
    whole = {case for part, case in seen if not part}

    def part_of(each: LintFinding) -> str | None:
        place = _case(each)
        if place in whole:
            return ""
        return each.part if (each.part, place) in seen else None

    groups = [[each for each in findings if part_of(each) == part] for part in sorted(parts)]
    return [group for group in groups if group], [each for each in findings if part_of(each) is None]


def _alike(findings: list[LintFinding]) -> list[list[LintFinding]]:
    """Group the findings that differ only in their case."""
    groups: dict[tuple[str, str, str], list[LintFinding]] = {}
    for each in findings:
        groups.setdefault((each.null.value, each.how, each.suggestion), []).append(each)
    return list(groups.values())


def _unneeded(task: Task, report: LintReport) -> list[str]:
    found = {each.null.value for each in report.findings}
    return [name for name in task.waive_nulls if name not in found]


def _waived(task: Task, report: LintReport) -> list[Waived]:
    places = {
        name: [_case(each) for each in report.findings if each.null.value == name]
        for name in task.waive_nulls
    }
    return [
        Waived(null=name, reason=task.waive_nulls[name], cases=list(dict.fromkeys(cases)))
        for name, cases in places.items()
        if cases
    ]


def _merged(notes: list[str]) -> list[str]:
    """Merge equal notes, each with all its cases."""
    cases: dict[str, list[str]] = {}
    for note in notes:
        case, _, text = note.partition(": ")
        cases.setdefault(text, []).append(case)
    return [f"{', '.join(dict.fromkeys(where))}: {text}" for text, where in cases.items()]


def _case(finding: LintFinding) -> str:
    return f"{finding.list.value}.{finding.index}"


OPEN_SEEDS = (
    "answers of all seeds can be computed beforehand: they are below 2^32, and inputs follow from them alone; draw "
    "random numbers with the generators of torch, NumPy or random, which the judge can salt, or allow larger seeds"
)


class _Lines:
    """Looks up lines in a readable ``task.yml``; a zip and a single file have none."""

    def __init__(self, place: Path) -> None:
        file = place / TASK_FILE if place.is_dir() else place
        self._file = str(file)
        readable = file.name == TASK_FILE and file.is_file()
        self._document = read_yaml(file.read_bytes()) if readable else Document()

    def problem(self, path: tuple[str | int, ...], text: str) -> Problem:
        line, column = self._document.position(path)
        key = ".".join(str(part) for part in path)
        return Problem(file=self._file, line=line, column=column, key=key, text=text)

    def findings(self, alike: list[LintFinding]) -> Problem:
        """Return the problem of a null submission that some cases accept, at the first of them."""
        first = alike[0]
        others = [_case(each) for each in alike[1:]]
        also = f" (and in {listed(others)})" if others else ""
        text = f"accepts `{first.null.value}` ({first.how}) for {parameters(first)}{also}: {first.suggestion}"
        return self.problem((first.list.value, first.index), text)

    def ignored(self, accepted: list[LintFinding]) -> Problem:
        """Return the problem of a part of the answer that the checker ignores, at the first case."""
        first = accepted[0]
        part = f"`{first.part}`" if first.part else "the answer"
        nulls = list(dict.fromkeys(f"`{each.null.value}`" for each in accepted))
        cases = list(dict.fromkeys(_case(each) for each in accepted))
        text = (
            f"the checker ignores {part}: it accepts {listed(nulls)} there, in {listed(cases)}; compare all of it with "
            "the reference's answer"
        )
        return self.problem((first.list.value, first.index), text)

    def fault(self, report: LintReport) -> list[Problem]:
        """Return the problem that the task could not be tried to the end, with its place."""
        if not report.fault:
            return []
        if report.fault_list is None:
            return [self.problem((), f"the task was not tried to the end: {report.fault}")]
        return [self.problem((report.fault_list.value, report.fault_index), report.fault)]

    def seeds(self, task: Task, report: LintReport) -> list[Problem]:
        """Return the problem that large seeds make poorer inputs, with its solution."""
        if report.seeds_poor:
            text = (
                f"even seeds below {FEWEST_SEEDS} (2^20), the smallest bound, make poorer inputs than the cases' "
                f"own ({report.seeds_why}): change `generate_input` so that values do not grow with the seed"
            )
            return [self.problem((SEEDS,), text)]
        if report.seeds_open:
            return [self.problem((SEEDS,), f"the {OPEN_SEEDS}")]
        if report.seeds_below in (None, task.seeds_below):
            return []
        text = (
            f"large seeds make poorer inputs ({report.seeds_why}): write `{SEEDS}: {report.seeds_below}`, "
            "the largest bound that does not; a leaderboard made without the key takes it by itself"
        )
        return [self.problem((SEEDS,), text)]


def parameters(finding: LintFinding) -> str:
    """Return a case's parameters as text."""
    return ", ".join(f"{key}={value}" for key, value in finding.parameters.items()) or "no parameters"


def listed(names: list[str]) -> str:
    """Return names separated by commas, shortened if there are many."""
    return " ".join([", ".join(names[:MOST_NAMES]), *more(len(names) - MOST_NAMES)])
