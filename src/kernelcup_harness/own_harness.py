"""Run a task's own ``eval.py`` under the ``POPCORN_*`` contract.

The file runs as its author wrote it: ``python3 MAIN MODE CASES`` with ``POPCORN_FD`` naming a pipe
for ``key: value`` lines. User code and checker share a process there, so what it reports is
self-measured. The pipe is read while the harness runs; what had arrived before a limit struck counts.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelcup_harness import processes, sandbox, seeds
from kernelcup_harness.protocol import (
    Backend,
    CapturedOutput,
    CaseResult,
    JobSpec,
    Mode,
    Parameters,
    Reason,
    StageName,
    Timing,
    Verdict,
)
from kernelcup_harness.record import Record, ended, signal_name

MAX_RESULT_BYTES = 64 << 20
MAX_EXTRA_KEYS = 200
MAX_EXTRA_TEXT = 4096
MAX_MESSAGE = 16 << 10
BUILD_LIMIT_S = 120.0
WATCH_INTERVAL_S = 0.1
# Submissions that build an extension are run once before the limits of the stages start.
BUILD_MARKS = ("cpp_extension", "load_inline")

# What the exit codes of the contract mean; every other one is a crash.
EXIT_VERDICTS: dict[int, tuple[Verdict, str]] = {
    2: (Verdict.INTERNAL_ERROR, "the task's own harness does not know this mode (exit code 2)"),
    110: (Verdict.RUNTIME_ERROR, "a call of the CUDA API failed (exit code 110)"),
    111: (Verdict.REJECTED, "the result pipe was broken while the submission ran (exit code 111)"),
    112: (Verdict.WRONG_ANSWER, "validation failed (exit code 112)"),
    113: (Verdict.INTERNAL_ERROR, "the task's own harness could not read its cases (exit code 113)"),
    114: (Verdict.TIME_LIMIT_EXCEEDED, "the time limit was exceeded (exit code 114)"),
}

# By these two a harness says that it could not even begin. Once it has told of a case, whoever ends
# the process with one of them, a submission perhaps, does not speak for the harness.
NOT_BEGUN_EXITS = (2, 113)

TIMED_STAGES = (StageName.BENCHMARK, StageName.RANKED)

# What extensions are compiled into. It is kept from the build to the last stage of a job.
KEPT_CACHES = ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR")

# Runs in every Python process below: emulation where it is asked for; in the first process also
# the limits and the tie to the runner. It replaces nothing of the task's.
SITE_CUSTOMIZE = """\
import os, sys
if os.environ.get("KERNELCUP_PARENT") == str(os.getppid()):
    import ctypes, resource
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = int(os.environ["KERNELCUP_MEMORY"])
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    limit = int(os.environ["KERNELCUP_FILE_BYTES"])
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
if os.environ.get("KERNELCUP_EMULATED") == "1":
    sys.path.insert(0, os.environ["KERNELCUP_HARNESS"])
    from kernelcup_harness import emulation
    sys.path.remove(os.environ["KERNELCUP_HARNESS"])
    emulation.install()
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """One call of the task's own harness."""

    stage: StageName
    mode: str
    cases: list[tuple[int, Parameters, bool]]
    """Index, parameters, hidden."""
    limit_s: float
    seed: int | None


@dataclass(frozen=True, slots=True)
class Laid:
    """The folders of one call, fresh and of a name that no earlier call could guess."""

    root: Path

    @property
    def files(self) -> Path:
        """The job's files: the working folder."""
        return self.root / "files"

    @property
    def site(self) -> Path:
        """What Python runs at its start."""
        return self.root / "site"

    @property
    def cases(self) -> Path:
        """The folder of the case file."""
        return self.root / "cases"


class OwnHarness:
    """All stages of one job under the task's own harness."""

    def __init__(self, spec: JobSpec, secret: bytes, folder: Path, record: Record, *, boxed: bool) -> None:
        self._spec = spec
        self._secret = secret
        self._folder = folder
        self._record = record
        self._boxed = boxed
        self._memory_bytes = min(spec.limits.memory_bytes, int(processes.total_memory() * 0.6))
        self._kept = sandbox.kept_folder(folder, sandbox.CONTESTANT_ID if boxed else os.getuid())
        self._has_run = False

    def run(self) -> None:
        """Run stage after stage until one is not accepted."""
        assert self._spec.main is not None
        self._record.environment |= environment_without_torch(self._spec.backend)
        if any(mark in self._spec.submission for mark in BUILD_MARKS):
            self._build()
        for invocations in self._plan():
            if not self._stage(invocations):
                return

    def _plan(self) -> list[list[Invocation]]:
        spec, limits = self._spec, self._spec.limits
        tests = numbered(spec.tests, spec.hidden_tests)
        benchmarks = numbered(spec.benchmarks, spec.hidden_benchmarks)
        # The contract: with `last` the harness is only sent the last benchmark.
        if spec.ranking_by == "last" and spec.benchmarks:
            benchmarks = [benchmarks[len(spec.benchmarks) - 1]]
        test = self._invocation(StageName.TEST, "test", tests, limits.test_s)
        if spec.mode is Mode.TEST:
            return [[test]]
        if spec.mode is Mode.BENCHMARK:
            return [[self._invocation(StageName.BENCHMARK, "benchmark", benchmarks, limits.benchmark_s)]]
        if spec.mode is Mode.PROFILE:
            each = [
                self._invocation(StageName.PROFILE, "profile", [case], limits.benchmark_s)
                for case in benchmarks
            ]
            return [each]
        secret = seeds.derive_seed(self._secret, "own") % 2**31
        ranked = self._invocation(StageName.RANKED, "leaderboard", benchmarks, limits.ranked_s, seed=secret)
        return [[test], [ranked]]

    def _invocation(
        self,
        stage: StageName,
        mode: str,
        cases: list[tuple[int, Parameters, bool]],
        limit_s: float,
        seed: int | None = None,
    ) -> Invocation:
        chosen = self._spec.public_seed if seed is None else seed
        return Invocation(stage=stage, mode=mode, cases=cases, limit_s=limit_s, seed=chosen)

    def _stage(self, invocations: list[Invocation]) -> bool:
        if not invocations:
            return True
        first = invocations[0]
        self._record.begin(first.stage, first.limit_s, sum(len(each.cases) for each in invocations))
        deadline = time.monotonic() + first.limit_s
        for invocation in invocations:
            verdict, message = self._invoke(invocation, deadline)
            if verdict is not Verdict.ACCEPTED:
                self._record.end(verdict, reason_of(verdict), message)
                return False
        self._record.end(Verdict.ACCEPTED, Reason.NONE, "")
        return True

    def _invoke(self, invocation: Invocation, deadline: float) -> tuple[Verdict, str]:
        try:
            laid = self._lay_out(invocation.cases)
        except OSError as error:
            if not self._has_run:
                raise
            # Without a sandbox an earlier stage could do that; the machine is not to blame.
            return Verdict.REJECTED, f"the job's folder cannot be used any more: {error.strerror}"
        assert self._spec.main is not None
        pipe = ResultPipe()
        argv = [sys.executable, self._spec.main, invocation.mode, str(laid.cases / "cases.txt")]
        child = self._start(argv, laid, self._variables(invocation, pipe.write_fd), fds=[pipe.write_fd])
        pipe.read(lambda: child.kill("results"))
        self._watch(child, deadline)
        results = pipe.finish()
        self._keep_output(child)
        reading = Reading(invocation, results, self._record, laid.files)
        return reading.verdict(child, self._how_it_ended(child, begun=has_begun(results)))

    def _build(self) -> None:
        """Run the submission by itself once, so that its extensions are built before time is counted.

        Only the caches of extensions are kept: what else it writes reaches no later stage.
        """
        self._record.begin(StageName.IMPORT, BUILD_LIMIT_S, 0)
        child = self._start([sys.executable, self._spec.submission_name], self._lay_out([]), {}, fds=[])
        self._watch(child, time.monotonic() + BUILD_LIMIT_S)
        if (child.wait(0.0) or 0) < 0:
            # The lock of a build that was cut off would hold up every later one.
            self._kept = None
        self._record.end(Verdict.ACCEPTED, Reason.NONE, "")

    def _start(
        self, argv: list[str], laid: Laid, extra: dict[str, str], *, fds: list[int]
    ) -> processes.Child:
        limits = self._spec.limits
        self._has_run = True
        box = sandbox.Sandbox(
            user_id=sandbox.CONTESTANT_ID,
            files=laid.files,
            gpu=self._spec.backend is Backend.CUDA,
            visible=(str(laid.site), str(laid.cases)),
            kept=self._kept,
            network=self._spec.multi_gpu,
        )
        child = processes.start(
            argv,
            cwd=laid.files,
            environment=self._environment(laid) | extra,
            fds=fds,
            keep_output=limits.kept_output_bytes,
            cap_output=limits.output_bytes,
            box=box if self._boxed else None,
        )
        for fd in fds:
            os.close(fd)
        return child

    def _environment(self, laid: Laid) -> dict[str, str]:
        caches = None if self._boxed else laid.root / "caches"
        return (
            processes.clean_environment(caches, os.environ)
            | self._kept_variables()
            | self._own_variables()
            | {"PYTHONPATH": str(laid.site)}
        )

    def _kept_variables(self) -> dict[str, str]:
        if self._kept is None:
            return {}
        shown = sandbox.KEPT if self._boxed else str(self._kept)
        return {name: f"{shown}/{name.lower()}" for name in KEPT_CACHES}

    def _own_variables(self) -> dict[str, str]:
        backend = self._spec.backend
        found = {
            "KERNELCUP_BACKEND": backend.value,
            "KERNELCUP_PARENT": "1" if self._boxed else str(os.getpid()),
            "KERNELCUP_MEMORY": str(0 if backend is Backend.CUDA else self._memory_bytes),
            # A file of the kept folder must not grow larger than one of the sandbox's own memory.
            "KERNELCUP_FILE_BYTES": str(sandbox.SCRATCH_BYTES if self._boxed else 0),
        }
        if backend is Backend.EMULATED:
            root = str(Path(__file__).resolve().parent.parent)
            found |= {"KERNELCUP_EMULATED": "1", "KERNELCUP_HARNESS": root, "TRITON_INTERPRET": "1"}
        if backend is not Backend.CUDA:
            found["CUDA_VISIBLE_DEVICES"] = ""
        return found

    def _variables(self, invocation: Invocation, fd: int) -> dict[str, str]:
        found = {"POPCORN_FD": str(fd)}
        if invocation.seed is not None:
            found["POPCORN_SEED"] = str(invocation.seed)
        if self._spec.multi_gpu:
            found["POPCORN_GPUS"] = str(visible_gpus())
        return found

    def _lay_out(self, cases: list[tuple[int, Parameters, bool]]) -> Laid:
        """Lay the files out anew: no stage sees what an earlier one left behind."""
        laid = Laid(Path(tempfile.mkdtemp(prefix="own-", dir=self._folder)))
        for folder in (laid.files, laid.site, laid.cases):
            folder.mkdir()
        for name, text in {**self._spec.sources, self._spec.submission_name: self._spec.submission}.items():
            path = laid.files / name
            if not path.resolve().is_relative_to(laid.files.resolve()):
                raise ValueError(f"file name {name!r} leads out of the job's folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (laid.site / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
        lines = "".join(case_line(parameters) + "\n" for _, parameters, _ in cases)
        (laid.cases / "cases.txt").write_text(lines, encoding="utf-8")
        sandbox.make_readable(laid.root)
        return laid

    def _watch(self, child: processes.Child, deadline: float) -> None:
        while child.wait(WATCH_INTERVAL_S) is None:
            if time.monotonic() > deadline:
                child.kill("time")
            elif processes.private_memory(child.process.pid) > self._memory_bytes:
                child.kill("memory")
        # Workers of a pool may outlive the process that made them, and hold the pipe open.
        processes.kill_tree(child.process.pid)
        processes.kill_descendants()

    def _keep_output(self, child: processes.Child) -> None:
        assert child.stdout is not None
        assert child.stderr is not None
        self._record.stdout = joined(self._record.stdout, child.stdout.finish())
        self._record.stderr = joined(self._record.stderr, child.stderr.finish())
        self._record.exit_code = child.wait(0.0)

    def _how_it_ended(self, child: processes.Child, *, begun: bool) -> tuple[Verdict, str] | None:
        """Return what the end of the process says by itself, None for a normal end."""
        code = child.wait(0.0)
        assert code is not None
        if child.killed_for:
            verdict, _reason, text = ended(child, self._spec.limits, self._memory_bytes, timeout_s=0.0)
            return verdict, text
        if code in EXIT_VERDICTS and not (begun and code in NOT_BEGUN_EXITS):
            return EXIT_VERDICTS[code]
        if code < 0:
            return Verdict.RUNTIME_ERROR, f"the harness was ended by {signal_name(-code)}"
        return None if code == 0 else (Verdict.RUNTIME_ERROR, f"the harness ended with exit code {code}")


class Reading:
    """Turns the result lines of one invocation into cases and a verdict."""

    def __init__(self, invocation: Invocation, results: dict[str, str], record: Record, cwd: Path) -> None:
        self._invocation = invocation
        self._results = results
        self._record = record
        self._cwd = str(cwd) + os.sep
        self._worst: CaseResult | None = None
        self._expected = len(invocation.cases)
        self._complete = 0

    def verdict(self, child: processes.Child, end: tuple[Verdict, str] | None) -> tuple[Verdict, str]:
        """Record the cases and return what comes of them and of how the process ended."""
        self._correct_plan()
        for place, (index, parameters, hidden) in enumerate(self._invocation.cases):
            result = self._case(place, index, parameters, hidden)
            if result is None:
                break
            self._record.case(result)
            self._complete += self._is_complete(result)
            if result.verdict is not Verdict.ACCEPTED and self._worst is None:
                self._worst = result
        self._keep_extra()
        return self._decide(child, end)

    def _correct_plan(self) -> None:
        """Take the harness's own count: some time fewer benchmarks than they were sent."""
        count = number(self._results.get("benchmark-count"))
        if self._invocation.stage is StageName.RANKED and count is not None:
            self._expected = min(max(1, int(count)), self._expected)
            self._record.plan(self._expected)

    def _is_complete(self, result: CaseResult) -> bool:
        """Tell whether a case has all that an accepted one must have."""
        return result.timing is not None or self._invocation.stage not in TIMED_STAGES

    def _decide(self, child: processes.Child, end: tuple[Verdict, str] | None) -> tuple[Verdict, str]:
        failed = self._worst
        if end is not None and not (failed is not None and end[0] is Verdict.WRONG_ANSWER):
            return end[0], self._with_detail(end[1], child)
        if failed is not None:
            return failed.verdict, failed.message
        if self._invocation.mode == "profile" or self._results.get("check") == "pass":
            return self._passed(child)
        if "check" in self._results or "error" in self._results:
            return Verdict.WRONG_ANSWER, self._text(
                "error"
            ) or "the task's own harness says that the check failed"
        text = "the harness ended without saying that the check passed"
        return Verdict.RUNTIME_ERROR, self._with_detail(text, child)

    def _passed(self, child: processes.Child) -> tuple[Verdict, str]:
        """Accept a check that passed only if every case was reported: a submission can say it too."""
        if self._complete >= self._expected:
            return Verdict.ACCEPTED, ""
        what = "the time" if self._invocation.stage in TIMED_STAGES else "the result"
        text = f"the harness ended well but told {what} of only {self._complete} of {self._expected} cases"
        return Verdict.RUNTIME_ERROR, self._with_detail(text, child)

    def _with_detail(self, text: str, child: processes.Child) -> str:
        assert child.stderr is not None
        tail = child.stderr.finish().text.strip().replace(self._cwd, "")
        return f"{text}\n{tail[-4096:]}" if tail else text

    def _case(self, place: int, index: int, parameters: Parameters, hidden: bool) -> CaseResult | None:
        """Return the result of a case, None if it was not reached."""
        family = "test" if self._invocation.stage is StageName.TEST else "benchmark"
        prefix = f"{family}.{place}."
        timing = self._timing(prefix)
        report = self._results.get(prefix + "report")
        status = self._results.get(prefix + "status")
        if status is None and report is None and prefix + "mean" not in self._results:
            return None
        verdict, message = self._judged(prefix, status)
        return CaseResult(
            index=index,
            parameters=parameters,
            hidden=hidden,
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
            return Verdict.RUNTIME_ERROR, f"the harness reported a time that is none: {mean[:100]!r}"
        return Verdict.ACCEPTED, self._text(prefix + "message")

    def _timing(self, prefix: str) -> Timing | None:
        mean = positive(self._results.get(prefix + "mean"))
        if mean is None:
            return None
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
        """Start to drain; the write end must be closed here once the child has it."""
        self._thread = threading.Thread(target=self._drain, args=(on_overflow,), daemon=True)
        self._thread.start()

    def finish(self) -> dict[str, str]:
        """Return the lines as a mapping; of several with one key the last counts."""
        self._thread.join(2.0)
        results: dict[str, str] = {}
        # No `splitlines`: it breaks at form feeds and the like too, which occur in texts of errors.
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
    """Return the reason that goes with a verdict: more than that a task's own harness does not tell."""
    known = {
        Verdict.ACCEPTED: Reason.NONE,
        Verdict.TIME_LIMIT_EXCEEDED: Reason.TIME,
        Verdict.MEMORY_LIMIT_EXCEEDED: Reason.HOST_MEMORY,
        Verdict.OUTPUT_LIMIT_EXCEEDED: Reason.PRINTED,
        Verdict.INTERNAL_ERROR: Reason.TASK,
    }
    return known.get(verdict, Reason.OWN_HARNESS)


def numbered(public: list[Parameters], hidden: list[Parameters]) -> list[tuple[int, Parameters, bool]]:
    """Number the public cases, then the hidden ones."""
    return [(i, parameters, i >= len(public)) for i, parameters in enumerate([*public, *hidden])]


def case_line(parameters: Parameters) -> str:
    """Write a case in the text form of the contract: ``key: value; key: value``."""
    return "; ".join(f"{key}: {value}" for key, value in parameters.items())


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
    """Tell whether something was reported of any case."""
    return any(key.startswith(("test.", "benchmark.")) for key in results)


def decoded_report(text: str) -> str:
    """Return the text of a profile report: base64 with ``+*`` as its last two letters."""
    try:
        return base64.b64decode(text, altchars=b"+*").decode("utf-8", errors="replace")
    except (binascii.Error, ValueError):
        return text


def joined(first: CapturedOutput, second: CapturedOutput) -> CapturedOutput:
    """Put the output of two processes together."""
    return CapturedOutput(
        text=first.text + second.text,
        total_bytes=first.total_bytes + second.total_bytes,
        truncated=first.truncated or second.truncated,
    )


def visible_gpus() -> int:
    """Return how many GPUs the job may use: those named to it, else all that are there."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return len(named.split(","))
    return max(1, sum(1 for _ in Path("/dev").glob("nvidia[0-9]*")))


def environment_without_torch(backend: Backend) -> dict[str, Any]:
    """Describe the machine; this process does not import torch."""
    from kernelcup_harness import sysinfo

    gpu = sysinfo.gpu_state() if backend is Backend.CUDA else {}
    found = {**sysinfo.machine(), "torch": sysinfo.version_of("torch"), "gpu": gpu}
    if backend is Backend.EMULATED:
        found["device"] = sysinfo.emulated_name()
    return found | ({"device": gpu["name"]} if "name" in gpu else {})
