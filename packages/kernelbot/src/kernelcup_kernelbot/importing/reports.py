"""KernelBot's figures as the evidence of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from kernelcup.app.results.queries.runs import LARGEST_MESSAGE
from kernelcup_harness.protocol import (
    Backend,
    CapturedOutput,
    CaseResult,
    HarnessKind,
    Mode,
    Parameters,
    Reason,
    RunReport,
    StageName,
    StageReport,
    Timing,
    TrustLevel,
    Verdict,
)

STAGES = {"test": StageName.TEST, "benchmark": StageName.BENCHMARK, "leaderboard": StageName.RANKED}
PUBLIC = (*STAGES, "profile")
"""Modes of runs that come over; what was judged in private stays behind."""
FIGURES = ("std", "err", "best", "worst", "runs")
TIMED_OUT = 114
"""The exit code of KernelBot's runner at a time limit."""
MOST_CASES = 200
LONGEST_OUTPUT = 4096
HOST_CLASS = "KernelBot"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What KernelBot found of a submission on one GPU."""

    report: RunReport
    score_s: float | None
    """The least of its passed ranked runs."""
    started_at: datetime
    finished_at: datetime


def mode_of(category: str | None, modes: Sequence[str]) -> Mode:
    """Return the mode of a submission: the furthest that its runs have, or that was asked for."""
    for mode in (Mode.LEADERBOARD, Mode.PROFILE, Mode.BENCHMARK):
        if mode.value in (category, *modes):
            return mode
    return Mode.TEST


def judged(number: int, mode: Mode, runs: Sequence[Any]) -> Judged:
    """Return the result of a submission's public runs on one GPU, of which there is at least one."""
    scores = [score for run in runs if (score := score_of(run)) is not None]
    failed = next((run for run in runs if not run.passed), None)
    verdict = Verdict.ACCEPTED if scores or failed is None else verdict_of(failed)
    last = failed if verdict is not Verdict.ACCEPTED and failed is not None else runs[-1]
    told = last.meta or {}
    machine = next((run.system_info for run in runs if run.system_info), None) or {}
    report = RunReport(
        job_id=f"kernelbot-{number}",
        mode=mode,
        backend=Backend.CUDA,
        harness=HarnessKind.OWN,
        verdict=verdict,
        stage=None if verdict is Verdict.ACCEPTED else STAGES.get(last.mode, StageName.IMPORT),
        reason=Reason.NONE if verdict is Verdict.ACCEPTED else Reason.OWN_HARNESS,
        message="" if verdict is Verdict.ACCEPTED else message_of(last),
        stages=[stage_of(run) for run in runs if run.mode in STAGES],
        stdout=_output(told.get("stdout")),
        stderr=_output(told.get("stderr")),
        exit_code=_whole(told.get("exit_code")),
        duration_s=sum((run.end_time - run.start_time).total_seconds() for run in runs),
        trust=TrustLevel.SELF_MEASURED,
        environment={"device": str(machine["gpu"])} if machine.get("gpu") else {},
        extra={"judged_by": HOST_CLASS} | {f"kernelbot_{key}": str(each) for key, each in machine.items()},
    )
    started, finished = min(run.start_time for run in runs), max(run.end_time for run in runs)
    return Judged(report=report, score_s=min(scores, default=None), started_at=started, finished_at=finished)


def compact(value: Any) -> Any:
    """Return the JSON of a part of a report without what is as by default, which reading adds: a third of the size."""
    kind: Any = type(value)
    if kind is list:
        return [compact(each) for each in value]
    if issubclass(kind, StrEnum):
        return value.value
    defaults = _defaults(kind)
    if not defaults:
        return value
    found = {}
    for name, default in defaults:
        each = getattr(value, name)
        if each != default or name == "version":
            found[name] = compact(each)
    return found


@cache
def _defaults(kind: type) -> list[tuple[str, Any]]:
    found = []
    for each in fields(kind) if is_dataclass(kind) else ():
        made = each.default_factory() if each.default_factory is not MISSING else each.default
        found.append((each.name, made))
    return found


def score_of(run: Any) -> float | None:
    """Return the seconds by which a run ranks; None if it does not."""
    if run.mode != "leaderboard" or run.secret or not run.passed or run.score is None:
        return None
    return positive(run.score)


def verdict_of(run: Any) -> Verdict:
    """Return why a run has not passed, as far as KernelBot knows."""
    told = run.meta or {}
    if run.compilation and run.compilation.get("success") is False:
        return Verdict.COMPILE_ERROR
    if _whole(told.get("exit_code")) == TIMED_OUT:
        return Verdict.TIME_LIMIT_EXCEEDED
    return Verdict.RUNTIME_ERROR if told.get("success") is False else Verdict.WRONG_ANSWER


def message_of(run: Any) -> str:
    """Return what KernelBot said of a run that has not passed."""
    results, told, build = run.result or {}, run.meta or {}, run.compilation or {}
    wrong = (str(text) for key, text in results.items() if str(key).endswith(".error"))
    text = next(wrong, "") or build.get("stderr") or results.get("error") or told.get("stderr") or ""
    return _lines(text)[:LARGEST_MESSAGE]


def stage_of(run: Any) -> StageReport:
    """Return a run as a stage with its cases."""
    name = STAGES[run.mode]
    results = {str(key): str(value) for key, value in (run.result or {}).items()}
    family = "test" if name is StageName.TEST else "benchmark"
    cases = []
    for index in range(MOST_CASES):
        case = _case(results, f"{family}.{index}.", index)
        if case is None:
            break
        cases.append(case)
    verdict = Verdict.ACCEPTED if run.passed else verdict_of(run)
    return StageReport(
        name=name,
        verdict=verdict,
        reason=Reason.NONE if run.passed else Reason.OWN_HARNESS,
        message="" if run.passed else message_of(run),
        duration_s=(run.end_time - run.start_time).total_seconds(),
        planned_cases=max(_whole(results.get(f"{family}-count")) or 0, len(cases)),
        cases=cases,
    )


def _case(results: Mapping[str, str], prefix: str, index: int) -> CaseResult | None:
    status, mean = results.get(f"{prefix}status"), positive(results.get(f"{prefix}mean"))
    if status is None and mean is None:
        return None
    passed = status in (None, "pass")
    figures = {name: number(results.get(prefix + name)) for name in FIGURES}
    kept = {name: each for name, each in figures.items() if each is not None}
    return CaseResult(
        index=index,
        parameters=parameters_of(results.get(f"{prefix}spec", "")),
        verdict=Verdict.ACCEPTED if passed else Verdict.WRONG_ANSWER,
        reason=Reason.NONE if passed else Reason.OWN_HARNESS,
        message=_lines(results.get(prefix + ("message" if passed else "error"), "")),
        timing=None if mean is None else Timing(samples_ns=[], reported_ns=mean, reported=kept),
        checks=1 if prefix.startswith("test") else 0,
    )


def parameters_of(spec: str) -> Parameters:
    """Return the parameters of a case from its line, ``size: 16; seed: 1``."""
    pairs = (part.partition(":") for part in spec.split(";"))
    return {key.strip(): _value(value.strip()) for key, _, value in pairs if key.strip()}


def _value(text: str) -> int | bool | str:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else text


def number(value: Any) -> float | None:
    """Return a finite number, None for anything else."""
    try:
        read = float(value)
    except (TypeError, ValueError):
        return None
    return read if math.isfinite(read) else None


def positive(value: Any) -> float | None:
    """Return a number above 0, None for anything else."""
    read = number(value)
    return read if read is not None and read > 0 else None


def _whole(value: Any) -> int | None:
    read = number(value)
    return None if read is None else int(read)


def _lines(text: Any) -> str:
    """Return a value with its line breaks, which KernelBot writes as backslash n."""
    return str(text).replace("\\n", "\n")


def _output(text: Any) -> CapturedOutput:
    whole = str(text or "")
    cut = whole[:LONGEST_OUTPUT]
    return CapturedOutput(text=cut, total_bytes=len(whole.encode()), truncated=cut != whole)
