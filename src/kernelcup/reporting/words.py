"""The words for the fixed values of a report: why it was not accepted, what to do next, how it was timed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kernelcup.reporting import phrases
from kernelcup.reporting.results import Waiting
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    Mode,
    Reason,
    RunReport,
    TrustLevel,
    Verdict,
    first_errors,
)

OF_THE_FILE = (Verdict.WRONG_ANSWER, Verdict.COMPILE_ERROR, Verdict.RUNTIME_ERROR)
"""The verdicts that the table of first errors explains."""

REASONS = {
    Reason.NONE: "",
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
    Reason.KILLED: "The process was killed, and not by the judge.",
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

NEXT: Mapping[Verdict | Mode, tuple[str, str]] = {
    Verdict.WRONG_ANSWER: (
        "Run this case on your own machine, and print where the two answers differ.",
        "What is expected: {about}",
    ),
    Verdict.COMPILE_ERROR: ("No call was made: fix the compiler’s errors, then submit it again.", ""),
    Verdict.RUNTIME_ERROR: ("The error is in the submission; the traceback names its lines.", ""),
    Verdict.TIME_LIMIT_EXCEEDED: (
        "Find the last case that finished, and make the next one faster.",
        "The limits: {about}",
    ),
    Verdict.MEMORY_LIMIT_EXCEEDED: ("Free memory after use, or allocate it once.", ""),
    Verdict.OUTPUT_LIMIT_EXCEEDED: (
        "Print or return less; only the beginning of the output is kept.",
        "",
    ),
    Verdict.REJECTED: (
        (
            "It interfered with the judge, or its times cannot be right. If you do not know why, ask the "
            "leaderboard’s creator."
        ),
        "The judge’s code: {about} --harness",
    ),
    Verdict.INTERNAL_ERROR: (
        "This is not the submission’s fault. Submit it again, or tell the leaderboard’s creator.",
        "Look with: kernelcup task check TASK, kernelcup doctor",
    ),
    Mode.TEST: ("All tests pass. Measure it as a benchmark, or submit it ranked.", ""),
    Mode.BENCHMARK: ("It is correct and measured. Submit it ranked to get a place.", ""),
    Mode.PROFILE: ("Look where the time goes, change it, and measure it as a benchmark.", ""),
    Mode.LEADERBOARD: ("See its place, or profile it to find what can be improved.", ""),
}
"""What to do next after a verdict, or after an accepted run of a mode; and which command shows more."""

ONLY_EMULATED = "It is correct. These times are from an emulated device; only a GPU shows how fast it is."
WANTS_A_GPU = (
    "It needs a GPU, but ran on the CPU. On the CPU, kernelcup run --device emulated checks "
    "answers; its times do not count."
)
NO_GPU = (
    "without ATen_cuda library",
    "not compiled with CUDA",
    "no NVIDIA driver",
    "No CUDA GPUs are available",
)
"""PyTorch's messages without a CUDA device: from a CPU-only build, and without a driver."""
EMULATED = "Times are from an emulated device: they cannot be compared with a GPU’s."

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


def verdict_text(verdict: str) -> str:
    """Return a verdict in words: ``wrong answer``."""
    return str(verdict).replace("_", " ")


def place_text(waiting: Waiting) -> str:
    """Return where a job waits, for how long and why."""
    parts = ["waits" if waiting.position is None else f"number {waiting.position} in the queue"]
    if waiting.starts_in_s is not None:
        soon = waiting.starts_in_s < 1
        parts.append("starts at once" if soon else f"starts in about {phrases.about(waiting.starts_in_s)}")
    if waiting.runs_s is not None:
        parts.append(f"runs about {phrases.about(waiting.runs_s)}")
    return f"{', '.join(parts)}{f' ({waiting.reason})' if waiting.reason else ''}"


def wants_a_gpu(report: RunReport) -> bool:
    """Return whether the submission failed on the CPU because there is no GPU."""
    return report.backend is Backend.CPU and any(mark in report.message for mark in NO_GPU)


def next_step(report: RunReport, about: str = "", beside: Collection[str] = ()) -> str:
    """Return what to do next after a report; with the command that shows more, if ``about`` shows the task.

    ``beside`` are the names of the files that lie where a submission of one file was.
    """
    if wants_a_gpu(report):
        return WANTS_A_GPU
    if report.verdict in OF_THE_FILE:
        known = first_errors.advice("\n".join(_symptoms(report)), has=packages(report), beside=beside)
        if known:
            return known
    is_accepted = report.verdict is Verdict.ACCEPTED
    if is_accepted and report.mode is Mode.BENCHMARK and report.backend is Backend.EMULATED:
        return ONLY_EMULATED
    step, command = NEXT[report.mode if is_accepted else report.verdict]
    return f"{step} {command.format(about=about)}" if about and command else step


def _symptoms(report: RunReport) -> Iterator[str]:
    """Yield what a report says of an error, in the words by which the table of first errors knows it."""
    yield report.message
    cases = [case for stage in report.stages for case in stage.cases]
    passed = [case for case in cases if case.verdict is Verdict.ACCEPTED]
    failed = [case for case in cases if case.verdict is not Verdict.ACCEPTED]
    if all(map(_is_odd, failed)) and not all(map(_is_odd, passed)):
        yield "wrong only at sizes that 32 does not divide"
    for case in failed:
        yield case.message
        if case.mismatch is not None:
            yield f"elements are wrong{case.mismatch.kinds}"


def _is_odd(case: CaseResult) -> bool:
    """Return whether a case has a size that 32, and so any usual block, does not divide."""
    sizes = (value for key, value in case.parameters.items() if type(value) is int and key != "seed")
    return any(size % 32 for size in sizes)


def packages(report: RunReport) -> str:
    """Return the packages of the environment in which a submission ran, empty if they are not known."""
    ran_in = report.environment.get("environment")
    return str(ran_in.get("packages", "")) if isinstance(ran_in, Mapping) else ""


def environment(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield the names and values of what a report says about the machine that judged."""
    for key, name in ENVIRONMENT.items():
        if value := report.environment.get(key):
            yield name, str(value)
    if found := packages(report):
        yield "Packages", found
    sandbox = report.environment.get("sandbox")
    if isinstance(sandbox, Mapping) and sandbox.get("kind"):
        yield "Sandbox", str(sandbox["kind"])
