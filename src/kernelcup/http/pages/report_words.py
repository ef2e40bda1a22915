"""Reports in words: what a verdict means, what to do next, what is called how."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcup.domain import JobState
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
"""What the first part of a phase's name is called; all others are told together."""
OTHER_PHASE = "other"

REASONS = {
    Reason.DIFFERS: "The checker found the answer wrong.",
    Reason.FORM: "The answer has another type, structure, shape or dtype than the reference’s.",
    Reason.ALIASED: "An output shares memory with an input or another output.",
    Reason.REPEATED: "It was wrong on an input that it had answered right before: it may depend on what came earlier.",
    Reason.NEAR_TWIN: "It was wrong on an input that differs in one element from an earlier one.",
    Reason.UNFINISHED: "The answer was not complete when the stream was done: work ran elsewhere.",
    Reason.EXCEPTION: "A call raised an exception.",
    Reason.IMPORT: "The file could not be imported.",
    Reason.COMPILE: "It could not be compiled.",
    Reason.TOO_LARGE: "A call returned more bytes than it may.",
    Reason.GUARD_BAND: "Something was written beside an output.",
    Reason.EXITED: "The process ended before it had answered.",
    Reason.TIME: "The time was over.",
    Reason.PRINTED: "Too much was printed.",
    Reason.DISK: "Too much was written to files.",
    Reason.HOST_MEMORY: "It needed more memory of the host than it may.",
    Reason.DEVICE_MEMORY: "It needed more memory of the device than it may.",
    Reason.OWN_HARNESS: "The task’s own harness says so.",
    Reason.TASK: "The task’s own generator, reference or checker failed.",
    Reason.MACHINE: "The machine failed, or we did.",
    Reason.PROTOCOL: "Something else than an answer came on the harness’s channel.",
    Reason.CHANNEL_CLOSED: "The harness’s channel was closed.",
}

NEXT = {
    Verdict.WRONG_ANSWER: "Run this case on your own machine, and print where the two answers part.",
    Verdict.COMPILE_ERROR: "Nothing was called: mend what the compiler names, then send it again.",
    Verdict.RUNTIME_ERROR: "It failed by itself; the trace names its own lines.",
    Verdict.TIME_LIMIT_EXCEEDED: "Look which case was the last one that ended, and make the next one faster.",
    Verdict.MEMORY_LIMIT_EXCEEDED: "Free what you allocate, or allocate it once.",
    Verdict.OUTPUT_LIMIT_EXCEEDED: "Print or return less; the beginning of the output is kept.",
    Verdict.REJECTED: "It touched what judges it. If it did not mean to, ask the leaderboard’s creator.",
    Verdict.INTERNAL_ERROR: "This is not the submission’s fault. Send it again, or tell the leaderboard’s creator.",
}
ACCEPTED_NEXT = {
    Mode.TEST: "All tests pass. Measure it as a benchmark, or send it ranked.",
    Mode.BENCHMARK: "It is right and measured. Send it ranked to take its place.",
    Mode.PROFILE: "Look where the time goes, change it, and measure it as a benchmark.",
    Mode.LEADERBOARD: "See where it stands, or profile it to find what is left.",
}
MOST_KEYS = 3
WAITS_NEXT = "You may close this page; the result stays here."

TRUST = {
    TrustLevel.REPLAYED: "Timed where no code of the submission runs, of what it had captured.",
    TrustLevel.WALL_CLOCK: "By the judge’s own clock, from before an input is handed out until the whole answer is "
    "there: an upper bound.",
    TrustLevel.AUDITED: "The submission’s clock and the judge’s agree.",
    TrustLevel.BOUNDED: "Not less than what calls one after another took by the judge’s clock.",
    TrustLevel.SELF_MEASURED: "By the submission’s own clock; nothing else confirms it.",
}
EMULATED = "From an emulated device: it cannot be compared with a GPU’s."
THERE_AND_BACK = (
    "By the wall clock. “There and back” is what a call takes that computes nothing, with an input and an answer of "
    "the same size: a part of each time, never taken off."
)

STATES = {
    JobState.QUEUED: "waits",
    JobState.RUNNING: "runs",
    JobState.CANCELLED: "cancelled",
    JobState.QUARANTINED: "under review",
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
    """Return where a job is: ``waits``."""
    return STATES[state]


def stage_text(name: str) -> str:
    """Return what a stage is called: ``ranked benchmarks``."""
    return next((words for stage, words in STAGES.items() if stage == name), name)


def next_text(report: RunReport) -> str:
    """Say what to do after a report."""
    if report.verdict is not Verdict.ACCEPTED:
        return NEXT[report.verdict]
    if report.backend is Backend.EMULATED and report.mode is Mode.BENCHMARK:
        return "It is right. These times are from an emulated device; a GPU’s would tell how fast it is."
    return ACCEPTED_NEXT[report.mode]


def shared_keys(cases: Sequence[CaseResult]) -> tuple[str, ...]:
    """Return the names of the parameters but the seed, where all public cases have the same few."""
    found = {tuple(key for key in case.parameters if key != "seed") for case in cases if case.parameters}
    keys = found.pop() if len(found) == 1 else ()
    return keys if len(keys) <= MOST_KEYS else ()


def case_text(case: CaseResult, keys: Sequence[str] = ()) -> str:
    """Return a case's parameters without its seed: ``height 512, width 512``; ``hidden`` for a hidden one.

    Where the column is headed by their names: ``512 × 512``.
    """
    if case.hidden and not case.parameters:
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
    "state_text": state_text,
    "stage_text": stage_text,
    "case_text": case_text,
    "parameters_text": parameters_text,
    "off_by": off_by,
}
