"""The words for the fixed values of a report: why it was not accepted, what to do next, how it was timed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kernelcup.domain import OWN_JOB
from kernelcup.reporting import phrases
from kernelcup.reporting.results import Waiting
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    Mode,
    Reason,
    RunReport,
    Verdict,
    first_errors,
)
from kernelcup_harness.protocol.data_files import read_table

OF_THE_FILE = (Verdict.WRONG_ANSWER, Verdict.COMPILE_ERROR, Verdict.RUNTIME_ERROR)
"""The verdicts that the table of first errors explains."""

_WORDS = read_table(__package__, "words.toml")
REASONS: Mapping[str, str] = _WORDS["reasons"]
NEXT: Mapping[str, Sequence[str]] = _WORDS["next"]
"""What to do next after a verdict, or after an accepted run of a mode; and which command shows more."""
TRUST: Mapping[str, str] = _WORDS["trust"]
ENVIRONMENT: Mapping[str, str] = _WORDS["environment"]

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


def verdict_text(verdict: str) -> str:
    """Return a verdict in words: ``wrong answer``."""
    return str(verdict).replace("_", " ")


def outcome_text(state: str, verdict: str | None) -> str:
    """Return how a job stands in a list: its verdict, or its state if it has none or a review keeps it aside."""
    return verdict_text(state if verdict is None or state in ("quarantined", "rejected") else verdict)


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
    outcome = report.mode if is_accepted else report.verdict
    if report.reason is Reason.UNDECIDED:
        return NEXT[report.reason][0]
    step, command = NEXT.get(f"{outcome}_here" if report.job_id == OWN_JOB else "", NEXT[outcome])
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
    ranks = report.environment.get("ranks")
    if isinstance(ranks, Mapping):
        told = (ranks.get(key) for key in ("count", "communication", "topology"))
        yield "GPU ranks", ", ".join(str(each) for each in told if each)
    if found := packages(report):
        yield "Packages", found
    sandbox = report.environment.get("sandbox")
    if isinstance(sandbox, Mapping) and sandbox.get("kind"):
        yield "Sandbox", str(sandbox["kind"])
