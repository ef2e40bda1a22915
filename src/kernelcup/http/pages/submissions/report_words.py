"""Reports in words: meanings of verdicts, next steps, and names of stages and phases."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcup.app.results.comparisons import ComparedCase
from kernelcup.domain import JobState
from kernelcup.reporting.bottlenecks.explain import demangled
from kernelcup.reporting.phrases import change_text
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    Difference,
    Mismatch,
    Mode,
    Reason,
    RunReport,
    StageName,
    TrustLevel,
    Verdict,
)

STAGES = {
    StageName.IMPORT: "import",
    StageName.TEST: "tests",
    StageName.BENCHMARK: "benchmarks",
    StageName.RANKED: "ranked benchmarks",
    StageName.PROFILE: "profile",
}
PHASES = {
    "start": "start",
    "build": "compile",
    "import": "import",
    "load": "load",
    "test": "tests",
    "benchmark": "benchmarks",
    "ranked": "ranked",
    "profile": "profile",
    "canary": "calibration",
    "calibration": "calibration",
    "no-ops": "calibration",
    "duel": "duel",
}
"""Names of phases, by the first part of their key; all others are shown together."""
OTHER_PHASE = "other"

REASONS = {
    Reason.DIFFERS: "The checker found the answer wrong.",
    Reason.FORM: "The answer’s type, structure, shape or dtype differs from the reference’s.",
    Reason.ALIASED: "An output shares memory with an input.",
    Reason.REPEATED: "It was wrong on an input that it had answered correctly before: it may depend on earlier calls.",
    Reason.NEAR_TWIN: "It was wrong on an input that differs in one element from an earlier one.",
    Reason.UNFINISHED: "The answer was incomplete when the stream finished: work ran elsewhere.",
    Reason.EXCEPTION: "A call raised an exception.",
    Reason.IMPORT: "The file could not be imported.",
    Reason.COMPILE: "It could not be compiled.",
    Reason.TOO_LARGE: "A call returned more bytes than allowed.",
    Reason.FORGED_TIME: "The clock and the GPU’s hardware counters disagree about its times.",
    Reason.WRITES_INPUT: "A call wrote to an input that the reference only reads.",
    Reason.UNTIMED: "Its calls could not be timed, though others can be on this device.",
    Reason.GUARD_BAND: "The submission wrote outside an output.",
    Reason.EXITED: "The process ended before it answered.",
    Reason.TIME: "The time limit was exceeded.",
    Reason.BUSY: "The time limit was exceeded, and the machine was busy.",
    Reason.PRINTED: "The submission printed too much.",
    Reason.DISK: "The submission wrote too much to files.",
    Reason.HOST_MEMORY: "It used more host memory than allowed.",
    Reason.DEVICE_MEMORY: "It used more device memory than allowed.",
    Reason.OWN_HARNESS: "The task’s own harness gave this verdict.",
    Reason.TASK: "The task’s own generator, reference or checker failed.",
    Reason.MACHINE: "The machine or KernelCup failed.",
    Reason.PROTOCOL: "Data other than an answer arrived on the harness’s channel.",
    Reason.CHANNEL_CLOSED: "The harness’s channel was closed.",
}

NEXT = {
    Verdict.WRONG_ANSWER: "Run this case on your own machine, and print where the two answers differ.",
    Verdict.COMPILE_ERROR: "No call was made: fix the compiler’s errors, then submit it again.",
    Verdict.RUNTIME_ERROR: "The error is in the submission; the traceback names its lines.",
    Verdict.TIME_LIMIT_EXCEEDED: "Find the last case that finished, and make the next one faster.",
    Verdict.MEMORY_LIMIT_EXCEEDED: "Free memory after use, or allocate it once.",
    Verdict.OUTPUT_LIMIT_EXCEEDED: "Print or return less; only the beginning of the output is kept.",
    Verdict.REJECTED: "It interfered with the judge, or its times cannot be right. If you do not know why, ask the "
    "leaderboard’s creator.",
    Verdict.INTERNAL_ERROR: "This is not the submission’s fault. Submit it again, or tell the leaderboard’s creator.",
}
ACCEPTED_NEXT = {
    Mode.TEST: "All tests pass. Measure it as a benchmark, or submit it ranked.",
    Mode.BENCHMARK: "It is correct and measured. Submit it ranked to get a place.",
    Mode.PROFILE: "Look where the time goes, change it, and measure it as a benchmark.",
    Mode.LEADERBOARD: "See its place, or profile it to find what can be improved.",
}
MOST_KEYS = 3
WAITS_NEXT = "You may close this page; the result stays here."

TRUST = {
    TrustLevel.WITNESSED: "Timed without any host code of the submission running, by hardware counters that no code "
    "of it can reach.",
    TrustLevel.REPLAYED: "Timed without any host code of the submission running: only what it had captured. "
    "No hardware counters confirmed it.",
    TrustLevel.WALL_CLOCK: "By the judge’s own clock, from before it hands out an input until it has the "
    "whole answer: an upper bound.",
    TrustLevel.SELF_MEASURED: "By the clock of the task’s own harness. Its interval covers calls of one process, "
    "not a rerun.",
}
EMULATED = "From an emulated device: it cannot be compared with a GPU’s."
OVERHEAD = (
    "By the wall clock. “Overhead” is the time of a call that computes nothing, with an input and an answer of "
    "the same size. It is a part of each time and is never subtracted."
)

STATES = {
    JobState.QUEUED: "waits",
    JobState.RUNNING: "runs",
    JobState.CANCELLED: "cancelled",
    JobState.QUARANTINED: "under review",
    JobState.REJECTED: "rejected",
    JobState.DONE: "done",
}

ENVIRONMENT = {
    "device": "Device",
    "driver": "Driver",
    "cuda": "CUDA",
    "torch": "PyTorch",
    "triton": "Triton",
    "python": "Python",
    "system": "System",
    "cores": "Cores",
}


def state_text(state: JobState) -> str:
    """Return a job's state in words: ``waits``."""
    return STATES[state]


def stage_text(name: str) -> str:
    """Return a stage's name: ``ranked benchmarks``."""
    return next((words for stage, words in STAGES.items() if stage == name), name)


def next_text(report: RunReport) -> str:
    """Return the next step after a report."""
    if report.verdict is not Verdict.ACCEPTED:
        return NEXT[report.verdict]
    if report.backend is Backend.EMULATED and report.mode is Mode.BENCHMARK:
        return "It is correct. These times are from an emulated device; only a GPU shows how fast it is."
    return ACCEPTED_NEXT[report.mode]


def shared_keys(cases: Sequence[CaseResult]) -> tuple[str, ...]:
    """Return the names of the parameters but the seed, where all public cases have the same few."""
    found = {tuple(key for key in case.parameters if key != "seed") for case in cases if case.parameters}
    keys = found.pop() if len(found) == 1 else ()
    return keys if len(keys) <= MOST_KEYS else ()


def case_text(case: CaseResult | ComparedCase, keys: Sequence[str] = ()) -> str:
    """Return a case's parameters without its seed: ``height 512, width 512``; ``hidden`` for a hidden one.

    Where the column is headed by their names: ``512 × 512``.
    """
    if isinstance(case, CaseResult) and case.hidden and not case.parameters:
        return "hidden"
    if keys:
        return " × ".join(str(case.parameters[key]) for key in keys)
    shown = {key: value for key, value in case.parameters.items() if key != "seed"} or case.parameters
    return ", ".join(f"{key} {value}" for key, value in shown.items()) or "no parameters"


def parameters_text(case: CaseResult) -> str:
    """Return all parameters of a case: ``height=512, width=512, seed=7``."""
    return ", ".join(f"{key}={value}" for key, value in case.parameters.items())


def mismatch_title(mismatch: Mismatch) -> str:
    """Return how many elements are wrong, and by how much at most."""
    error = "" if mismatch.largest_error is None else f", off by {mismatch.largest_error:.4g} at most"
    where = "" if mismatch.where == "output" else f" of {mismatch.where}"
    return f"{mismatch.wrong:,} of {mismatch.total:,} elements{where} are wrong{mismatch.kinds}{error}"


def off_by(element: Difference) -> str:
    """Return how far an element is from what is expected; empty where they are no numbers."""
    try:
        return f"{abs(float(element.actual) - float(element.expected)):.4g}"
    except (ValueError, OverflowError):
        return ""


FILTERS = {
    "change": change_text,
    "state_text": state_text,
    "stage_text": stage_text,
    "case_text": case_text,
    "kernel_name": demangled,
    "parameters_text": parameters_text,
    "off_by": off_by,
}
