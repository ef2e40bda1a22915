"""KernelBot's figures as the evidence of a run."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelcup.app.results.queries.runs import LARGEST_MESSAGE
from kernelcup_harness.protocol import (
    PROTOCOL_VERSION,
    Backend,
    HarnessKind,
    Mode,
    Parameters,
    Reason,
    StageName,
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
BACKEND, TRUST = Backend.CUDA, TrustLevel.SELF_MEASURED

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What KernelBot found of a submission on one GPU."""

    report: Json
    """A :class:`RunReport` without what is as by default: a third of the size."""
    verdict: Verdict
    score_s: float | None
    """The least of its passed runs."""
    started_at: datetime
    finished_at: datetime


def mode_of(category: str | None, runs: Sequence[Any]) -> Mode:
    """Return the mode of a submission: ranked with a score, else the furthest that its runs have or that was asked."""
    modes = {category, *(run.mode for run in runs)}
    if any(score_of(run) is not None for run in runs):
        return Mode.LEADERBOARD
    for mode in (Mode.LEADERBOARD, Mode.PROFILE, Mode.BENCHMARK):
        if mode.value in modes:
            return mode
    return Mode.TEST


def judged(number: int, mode: Mode, runs: Sequence[Any]) -> Judged:
    """Return the result of a submission's public runs on one GPU, of which there is at least one."""
    scores = [score for run in runs if (score := score_of(run)) is not None]
    failed = next((run for run in runs if not run.passed), None)
    if scores:
        failed = None
    verdict = Verdict.ACCEPTED if failed is None else verdict_of(failed)
    last = failed or runs[-1]
    told = last.meta or {}
    machine = next((run.system_info for run in runs if run.system_info), None) or {}
    report = _kept(
        version=PROTOCOL_VERSION,
        job_id=f"kernelbot-{number}",
        mode=mode.value,
        backend=BACKEND.value,
        harness=HarnessKind.OWN.value,
        stage=None if failed is None else STAGES.get(last.mode, StageName.IMPORT).value,
        stages=[_stage(run) for run in runs if run.mode in STAGES],
        stdout=_output(told.get("stdout")),
        stderr=_output(told.get("stderr")),
        exit_code=_whole(told.get("exit_code")),
        duration_s=sum(map(_seconds, runs)),
        environment={"device": str(machine["gpu"])} if machine.get("gpu") else None,
        extra={"judged_by": HOST_CLASS} | {f"kernelbot_{key}": str(each) for key, each in machine.items()},
        **_end(verdict, "" if failed is None else message_of(failed)),
    )
    started, finished = min(run.start_time for run in runs), max(run.end_time for run in runs)
    score_s = min(scores, default=None)
    return Judged(report=report, verdict=verdict, score_s=score_s, started_at=started, finished_at=finished)


def _kept(**values: Any) -> Json:
    """Return a part of a report without what it has by default."""
    return {name: each for name, each in values.items() if each not in (None, "")}


def _end(verdict: Verdict, message: str) -> Json:
    accepted = verdict is Verdict.ACCEPTED
    return {
        "verdict": verdict.value,
        "reason": None if accepted else Reason.OWN_HARNESS.value,
        "message": "" if accepted else message,
    }


def _seconds(run: Any) -> float:
    return float((run.end_time - run.start_time).total_seconds())


def score_of(run: Any) -> float | None:
    """Return the seconds by which a public run would rank, which has any mode; None without one."""
    return positive(run.score) if run.passed else None


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


def _stage(run: Any) -> Json:
    """Return a run as a stage with its cases."""
    name = STAGES[run.mode]
    results = {str(key): str(value) for key, value in (run.result or {}).items()}
    family = "test" if name is StageName.TEST else "benchmark"
    found = (_case(results, f"{family}.{index}.", index) for index in range(MOST_CASES))
    cases = list(itertools.takewhile(bool, found))
    return _kept(
        name=name.value,
        duration_s=_seconds(run),
        planned_cases=max(_whole(results.get(f"{family}-count")) or 0, len(cases)),
        cases=cases,
        **_end(Verdict.ACCEPTED if run.passed else verdict_of(run), message_of(run)),
    )


def _case(results: Mapping[str, str], prefix: str, index: int) -> Json:
    """Return a case, empty if there is none of this number."""
    status, mean = results.get(f"{prefix}status"), positive(results.get(f"{prefix}mean"))
    if status is None and mean is None:
        return {}
    passed = status in (None, "pass")
    figures = {name: number(results.get(prefix + name)) for name in FIGURES}
    kept = {name: each for name, each in figures.items() if each is not None}
    verdict = Verdict.ACCEPTED if passed else Verdict.WRONG_ANSWER
    message = _lines(results.get(prefix + ("message" if passed else "error"), ""))
    return _kept(
        index=index,
        parameters=parameters_of(results.get(f"{prefix}spec", "")),
        timing=None if mean is None else {"samples_ns": [], "reported_ns": mean, "reported": kept},
        checks=int(prefix.startswith("test")),
        **_end(verdict, "") | {"message": message},
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


def _output(text: Any) -> Json | None:
    whole = str(text or "")
    cut = whole[:LONGEST_OUTPUT]
    return {"text": cut, "total_bytes": len(whole.encode()), "truncated": cut != whole} if whole else None
