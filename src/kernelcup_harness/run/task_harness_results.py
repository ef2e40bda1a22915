"""The results that a task's own harness reports through ``POPCORN_FD``, and their verdicts."""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kernelcup_harness.core.plan import PlannedCase
from kernelcup_harness.isolation import job_environment, processes
from kernelcup_harness.protocol import (
    CaseResult,
    JobSpec,
    Limits,
    Reason,
    StageName,
    Timing,
    Verdict,
)
from kernelcup_harness.run.record import Record, ended, signal_name, standard_error
from kernelcup_harness.submission.cuda.compiling import MAY_PASS, NOT_COMPILED

MAX_RESULT_BYTES = 64 << 20
MAX_EXTRA_KEYS = 200
MAX_EXTRA_TEXT = 4096
MAX_MESSAGE = 16 << 10
HIDDEN_DIGITS = 4
"""Significant digits of the time of a hidden case, as a leaderboard shows times: a score tells no more."""

CHECK_FAILED = "the task's own harness reports that the check failed"

FRAME = re.compile(r'^ *File "(.+?)", line (\d+)', re.MULTILINE)

Frame = tuple[str, str]
NOTHING_SUBMITTED = "nothing is submitted"
STAND_IN = """\
import os

try:
    from {module} import ref_kernel as custom_kernel
except BaseException:

    def custom_kernel(*data, **more):
        os.write(2, b"{told}\\n")
        raise RuntimeError("{told}")
"""
"""Takes the submission's place: the reference, else what says that it was called."""

# The verdicts of the contract's exit codes; every other code is a crash.
EXIT_VERDICTS: dict[int, tuple[Verdict, str]] = {
    NOT_COMPILED: (
        Verdict.COMPILE_ERROR,
        "the submission and the task's own harness do not compile together",
    ),
    110: (Verdict.RUNTIME_ERROR, "a call of the CUDA API failed (exit code 110)"),
    111: (Verdict.REJECTED, "the result pipe was broken while the submission ran (exit code 111)"),
    112: (Verdict.WRONG_ANSWER, "validation failed (exit code 112)"),
    114: (Verdict.TIME_LIMIT_EXCEEDED, "the time limit was exceeded (exit code 114)"),
}

# With these a harness reports that it could not begin. Such an exit may come from the submission, too, which shares the
# process.
NOT_BEGUN_EXITS = {
    2: "the task's own harness does not know this mode (exit code 2)",
    113: "the task's own harness could not read its cases (exit code 113)",
}

Ending = tuple[Verdict | None, str]
"""A verdict and its text; None for a failure that shows no frame, verdict or limit of the submission's."""

TIMED_STAGES = (StageName.BENCHMARK, StageName.RANKED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """One call of the task's own harness."""

    stage: StageName
    mode: str
    cases: list[PlannedCase]
    limit_s: float
    seed: int | None

    @property
    def is_hidden(self) -> bool:
        """Whether its cases are hidden."""
        return any(case.hidden for case in self.cases)


class Reading:
    """Turns the result lines of one invocation into cases and a verdict."""

    def __init__(self, invocation: Invocation, results: dict[str, str], record: Record) -> None:
        self._invocation = invocation
        self._results = results
        self._record = record
        self._worst: CaseResult | None = None
        self._expected = len(invocation.cases)
        self._complete = 0

    def verdict(self, end: Ending | None) -> Ending:
        """Record the cases and return the verdict, from the cases and from how the process ended."""
        self._correct_plan()
        for place, case in enumerate(self._invocation.cases):
            result = self._case(place, case)
            if result is None:
                break
            self._record.case(result)
            self._complete += self._is_complete(result)
            if result.verdict is not Verdict.ACCEPTED and self._worst is None:
                self._worst = result
        if not self._invocation.is_hidden:
            self._keep_extra()
        return self._decide(end)

    def _correct_plan(self) -> None:
        """Use the harness's own count: some harnesses time fewer benchmarks than they got."""
        count = number(self._results.get("benchmark-count"))
        if self._invocation.stage is StageName.RANKED and count is not None:
            given, self._expected = self._expected, min(max(1, int(count)), self._expected)
            self._record.plan_fewer(given - self._expected)

    def _is_complete(self, result: CaseResult) -> bool:
        """Return whether a case has everything that an accepted one needs."""
        return result.timing is not None or self._invocation.stage not in TIMED_STAGES

    def _decide(self, end: Ending | None) -> Ending:
        failed = self._worst
        told_by_case = end is not None and end[0] in (Verdict.WRONG_ANSWER, None)
        if end is not None and not (failed is not None and told_by_case):
            return end
        if failed is not None:
            return failed.verdict, failed.message
        if self._invocation.mode == "profile" or self._results.get("check") == "pass":
            return self._passed()
        if "check" in self._results or "error" in self._results:
            return Verdict.WRONG_ANSWER, self._text("error") or CHECK_FAILED
        if (wrong := self._failed_test()) is not None:
            return Verdict.WRONG_ANSWER, wrong
        return None, "the harness ended without reporting that the check passed"

    def _failed_test(self) -> str | None:
        """Return the text of a failed test in a timed stage: older harnesses report wrong answers like this."""
        failed = [
            key
            for key, value in self._results.items()
            if value == "fail" and key.startswith("test.") and key.endswith(".status")
        ]
        if not failed:
            return None
        return self._text(failed[0].removesuffix("status") + "error") or CHECK_FAILED

    def _passed(self) -> Ending:
        """Accept a passed check only if every case was reported: a submission could report it too."""
        if self._complete >= self._expected:
            return Verdict.ACCEPTED, ""
        what = "the time" if self._invocation.stage in TIMED_STAGES else "the result"
        return None, (
            f"the harness ended well but reported {what} of only {self._complete} of {self._expected} cases"
        )

    def _case(self, place: int, case: PlannedCase) -> CaseResult | None:
        """Return the result of a case, None if it was not reached."""
        family = "test" if self._invocation.stage is StageName.TEST else "benchmark"
        prefix = f"{family}.{place}."
        timing = self._timing(prefix, hidden=case.hidden)
        report = self._results.get(prefix + "report")
        status = self._results.get(prefix + "status")
        if status is None and report is None and prefix + "mean" not in self._results:
            return None
        verdict, message = self._judged(prefix, status)
        return CaseResult(
            index=case.index,
            parameters=case.parameters,
            hidden=case.hidden,
            met_hidden=case.hidden,
            verdict=verdict,
            reason=reason_of(verdict),
            message=message,
            timing=timing,
            checks=1 if family == "test" else 0,
            profile=decoded_report(report) if report is not None else None,
        )

    def _judged(self, prefix: str, status: str | None) -> tuple[Verdict, str]:
        if status not in (None, "pass"):
            return Verdict.WRONG_ANSWER, self._text(prefix + "error")
        mean = self._results.get(prefix + "mean")
        if self._invocation.stage in TIMED_STAGES and mean is not None and positive(mean) is None:
            return Verdict.RUNTIME_ERROR, f"the harness reported an invalid time: {mean[:100]!r}"
        return Verdict.ACCEPTED, self._text(prefix + "message")

    def _timing(self, prefix: str, *, hidden: bool) -> Timing | None:
        """Return the reported time; of a hidden case its rounded mean alone, since the process that met it wrote it."""
        mean = positive(self._results.get(prefix + "mean"))
        if mean is None:
            return None
        if hidden:
            return Timing(samples_ns=[], reported_ns=float(f"{mean:.{HIDDEN_DIGITS}g}"))
        names = ("std", "err", "best", "worst", "runs")
        figures = {name: number(self._results.get(prefix + name)) for name in names}
        return Timing(
            samples_ns=[],
            reported_ns=mean,
            reported={name: f for name, f in figures.items() if f is not None},
        )

    def _text(self, key: str) -> str:
        """Return a value with its line breaks, which the contract writes as backslash n."""
        return self._results.get(key, "").replace("\\n", "\n")[:MAX_MESSAGE]

    def _keep_extra(self) -> None:
        for key, value in self._results.items():
            known = key == "check" or key.startswith(("test.", "benchmark.", "test-count", "benchmark-count"))
            if not known and len(self._record.extra) < MAX_EXTRA_KEYS:
                self._record.extra[key[:200]] = value[:MAX_EXTRA_TEXT]


class ResultPipe:
    """The pipe behind ``POPCORN_FD``, drained by a thread from the first byte on."""

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe()
        self._data = bytearray()

    def read(self, on_overflow: Callable[[], None]) -> None:
        """Start draining; close the write end in this process once the child has it."""
        self._thread = threading.Thread(target=self._drain, args=(on_overflow,), daemon=True)
        self._thread.start()

    def finish(self) -> dict[str, str]:
        """Return the lines as a mapping; if a key occurs several times, the last line counts."""
        self._thread.join(2.0)
        results: dict[str, str] = {}
        # Not `splitlines`: it also breaks at form feeds and similar characters, which occur in error texts.
        for line in bytes(self._data).decode("utf-8", errors="replace").split("\n"):
            key, colon, value = line.removesuffix("\r").partition(":")
            if colon:
                results[key.strip()] = value.strip()
        return results

    def _drain(self, on_overflow: Callable[[], None]) -> None:
        with open(self._read_fd, "rb", buffering=0) as pipe:
            while chunk := pipe.read(1 << 16):
                if len(self._data) + len(chunk) > MAX_RESULT_BYTES:
                    on_overflow()
                    return
                self._data += chunk


def reason_of(verdict: Verdict) -> Reason:
    """Return the reason for a verdict; a task's own harness reports nothing finer."""
    known = {
        Verdict.ACCEPTED: Reason.NONE,
        Verdict.TIME_LIMIT_EXCEEDED: Reason.TIME,
        Verdict.MEMORY_LIMIT_EXCEEDED: Reason.HOST_MEMORY,
        Verdict.OUTPUT_LIMIT_EXCEEDED: Reason.PRINTED,
        Verdict.INTERNAL_ERROR: Reason.TASK,
    }
    return known.get(verdict, Reason.OWN_HARNESS)


def number(text: str | None) -> float | None:
    """Return a finite number, None for anything else."""
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def positive(text: str | None) -> float | None:
    """Return a finite number above zero, None for anything else."""
    value = number(text)
    return value if value is not None and value > 0 else None


def has_begun(results: Mapping[str, str]) -> bool:
    """Return whether any case was reported."""
    return any(key.startswith(("test.", "benchmark.")) for key in results)


def decoded_report(text: str) -> str:
    """Return the text of a profile report: base64 with ``+*`` as its last two letters."""
    try:
        return base64.b64decode(text, altchars=b"+*").decode("utf-8", errors="replace")
    except (binascii.Error, ValueError):
        return text


def how_it_ended(
    child: processes.Child, limits: Limits, memory_bytes: int, *, begun: bool, files: Collection[str]
) -> Ending | None:
    """Return what follows from the end of the process alone, None for a normal end; ``files`` are the submission's."""
    code, log = child.wait(0.0), standard_error(child).text
    assert code is not None
    if child.killed_for:
        verdict, _reason, text = ended(child, limits, memory_bytes, timeout_s=0.0)
        return verdict, text
    if code == NOT_COMPILED and MAY_PASS.search(log):
        return None, f"the harness could not be compiled (exit code {code})"
    if code in EXIT_VERDICTS:
        return EXIT_VERDICTS[code]
    if code == 0:
        return None
    how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    text = f"the harness {how}{'' if begun else ' before the first case'}"
    is_its_own = any(file in files for file, _ in FRAME.findall(log))
    if is_its_own or child.was_killed():
        return Verdict.RUNTIME_ERROR, text
    return None, text if begun else NOT_BEGUN_EXITS.get(code, text)


def ending(
    spec: JobSpec, invocation: Invocation, child: processes.Child, results: dict[str, str], record: Record
) -> Ending:
    """Record the cases of a call that has ended, and return its verdict."""
    memory_bytes, files = job_environment.memory_limit(spec), spec.submission.files
    end = how_it_ended(child, spec.limits, memory_bytes, begun=has_begun(results), files=files)
    return Reading(invocation, results, record).verdict(end)


def last_frame(log: str) -> Frame:
    """Return file and line of the last frame in a log, empty if there is none."""
    return next(reversed(FRAME.findall(log)), ("", ""))
