"""Runs a task's own ``eval.py`` under the ``POPCORN_*`` contract.

The file runs as its author wrote it: ``python3 MAIN MODE CASES`` with ``POPCORN_FD`` naming a pipe
for ``key: value`` lines. User code and checker share a process there, so its times are
self-measured. The pipe is read while the harness runs; results that arrived before a limit count.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelcup_harness.build import compilers, step, store
from kernelcup_harness.core.plan import PlannedCase, cases_of, plan
from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.device import accelerators, machine
from kernelcup_harness.isolation import job_environment, processes, sandbox
from kernelcup_harness.protocol import (
    Backend,
    CapturedOutput,
    JobSpec,
    Mode,
    Parameters,
    RankingBy,
    Reason,
    SourceTree,
    StageName,
    Verdict,
    seeds,
)
from kernelcup_harness.protocol.source import ROOT
from kernelcup_harness.run.blame import by_exclusion
from kernelcup_harness.run.record import Record, standard_error
from kernelcup_harness.run.task_harness_results import (
    NOTHING_SUBMITTED,
    STAND_IN,
    Frame,
    Invocation,
    ResultPipe,
    ending,
    last_frame,
    reason_of,
)
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import libraries
from kernelcup_harness.submission.cuda.compiling import NOT_COMPILED

# Runs in every Python process below: emulation if it is asked for; in the first process also the
# limits and the tie to the runner. It replaces nothing of the task's.
SITE_CUSTOMIZE = """\
import os, sys
if os.environ.pop("KERNELCUP_PARENT", None) in ("0", str(os.getppid())):
    import ctypes, resource
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = int(os.environ["KERNELCUP_MEMORY"])
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if os.environ.get("KERNELCUP_ENVIRONMENT"):
    import site
    site.addsitedir(os.path.join(os.environ["KERNELCUP_ENVIRONMENT"], "site"))
if os.environ.get("KERNELCUP_EMULATED") == "1":
    sys.path.insert(0, os.environ["KERNELCUP_HARNESS"])
    from kernelcup_harness.device.emulated import emulation
    from kernelcup_harness.submission.cuda import inline
    sys.path.remove(os.environ["KERNELCUP_HARNESS"])
    emulation.install()
    inline.install()
"""


@dataclass(frozen=True, slots=True)
class Laid:
    """The folders of one call: fresh, with a name that no earlier call could guess."""

    root: Path

    @property
    def files(self) -> Path:
        """The job's files: the working folder."""
        return self.root / "files"

    @property
    def site(self) -> Path:
        """The folder of the code that Python runs at its start."""
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
        self._memory_bytes = job_environment.memory_limit(spec)
        self._built: store.Build | None = None
        self._build_folders = job_environment.build_folders(folder / "built", boxed=boxed)
        self._has_run = False

    def run(self) -> None:
        """Run stage after stage until one is not accepted."""
        assert self._spec.main is not None
        self._record.environment |= environment_without_torch(self._spec.backend)
        if name := job_environment.hides(self._spec.submission):
            text = (
                f"a file or folder {name!r} of the submission would hide the module of that name: rename it"
            )
            self._record.fail(StageName.IMPORT, Verdict.COMPILE_ERROR, Reason.COMPILE, text)
            return
        if self._needs_build() and not self._build():
            return
        calls = self._plan()
        planned = Counter(call.stage for part in calls for call in part for _ in call.cases)
        for part in calls:
            if not self._stage(part, planned[part[0].stage] if part else 0):
                return

    def _plan(self) -> list[list[Invocation]]:
        """Return the calls of each stage: of public cases, then those of hidden ones, in processes of their own."""
        spec = self._spec
        if spec.mode is Mode.PROFILE:
            cases, limit_s = cases_of(spec.benchmarks, []), spec.limits.benchmark_s
            return [[self._invocation(StageName.PROFILE, [case], limit_s) for case in cases]]
        calls = []
        for stage in plan(spec):
            cases = stage.cases
            # The contract: with `last` the harness gets only the last benchmark.
            if stage.timed and spec.ranking_by is RankingBy.LAST and spec.benchmarks:
                cases = [case for case in cases if case.index == len(spec.benchmarks) - 1]
            if cases or not stage.others:
                calls.append([self._invocation(stage.name, cases, stage.limit_s)])
        return calls

    def _invocation(self, stage: StageName, cases: list[PlannedCase], limit_s: float) -> Invocation:
        ranked = stage is StageName.RANKED
        seed = seeds.derive_seed(self._secret, "own") % 2**31 if ranked else self._spec.public_seed
        mode = "leaderboard" if ranked else stage.value
        return Invocation(stage=stage, mode=mode, cases=cases, limit_s=limit_s, seed=seed)

    def _stage(self, invocations: list[Invocation], total: int) -> bool:
        """Call the harness for a stage, or for its part of public or of hidden cases; ``total`` counts both."""
        if not invocations:
            return True
        first = invocations[0]
        self._record.begin(first.stage, first.limit_s, sum(len(each.cases) for each in invocations), total)
        deadline = time.monotonic() + first.limit_s
        for invocation in invocations:
            end = self._invoke(invocation, deadline)
            if end is not None:
                self._record.end(end.verdict, end.reason, end.message, met_hidden=first.is_hidden)
                return False
        self._record.end(Verdict.ACCEPTED, Reason.NONE, "", met_hidden=first.is_hidden)
        return True

    def _invoke(self, invocation: Invocation, deadline: float) -> RunEnds | None:
        """Run the harness with the submission. Return what ends the run, None if the stage goes on."""
        try:
            laid = self._lay_out(invocation.cases)
        except OSError as error:
            if not self._has_run:
                raise
            # Without a sandbox an earlier stage can cause this; the machine is not to blame.
            text = f"the job's folder cannot be used any more: {error.strerror}"
            return RunEnds(Verdict.REJECTED, Reason.OWN_HARNESS, text)
        child, results = self._call(invocation, laid, deadline)
        self._keep_output(child, invocation)
        verdict, text = ending(self._spec, invocation, child, results, self._record)
        if verdict is Verdict.ACCEPTED:
            return None
        log, own = standard_error(child).text.strip(), None
        if verdict is not None:
            is_killed = child.was_killed() and verdict is Verdict.RUNTIME_ERROR
            own = RunEnds(verdict, Reason.KILLED if is_killed else reason_of(verdict), text)
        elif child.wait(0.0) == NOT_COMPILED:
            # Something has ended the compiler: the processors are asked, as for a time limit.
            self._record.late.add(invocation.stage)
        frame = last_frame(log)
        at = f", at {':'.join(frame)}" if frame[0] in self._spec.sources else ""
        end = by_exclusion(own, lambda: self._alone(invocation, deadline) == (text, frame), text + at)
        if log and verdict is not Verdict.WRONG_ANSWER and not invocation.is_hidden:
            end.message += f"\n{log[-4096:]}"
        return end

    def _alone(self, invocation: Invocation, deadline: float) -> tuple[str, Frame] | None:
        """Return how the harness fails with :data:`STAND_IN` in the submission's place, and its last frame.

        None if it does not fail, if that is about the stand-in, or if no other submission is at hand.
        """
        if not languages.of(self._spec.submission.entry).runs_code:
            return None
        stand_in = STAND_IN.format(module=self._spec.reference_module, told=NOTHING_SUBMITTED)
        built, self._built = self._built, None
        try:
            laid = self._lay_out(invocation.cases, submission=stand_in)
        except OSError:
            return None
        child, results = self._call(invocation, laid, deadline)
        self._built = built
        spare = Record(self._spec, "", lambda _event: None)
        spare.begin(invocation.stage, invocation.limit_s, len(invocation.cases))
        verdict, text = ending(self._spec, invocation, child, results, spare)
        log = standard_error(child).text
        is_called = any(NOTHING_SUBMITTED in each for each in (log, *results.values()))
        return None if verdict is not None or is_called else (text, last_frame(log))

    def _call(
        self, invocation: Invocation, laid: Laid, deadline: float
    ) -> tuple[processes.Child, dict[str, str]]:
        """Run the harness once, to its end or to a limit. Return the process and its result lines."""
        assert self._spec.main is not None
        pipe = ResultPipe()
        child = self._start(
            self._argv(invocation, laid), laid, self._variables(invocation, pipe.write_fd), fd=pipe.write_fd
        )
        pipe.read(lambda: child.kill("results"))
        job_environment.watch(child, deadline, self._memory_bytes)
        return child, pipe.finish()

    def _argv(self, invocation: Invocation, laid: Laid) -> list[str]:
        """Return the command of one call."""
        assert self._spec.main is not None
        return [sys.executable, self._spec.main, invocation.mode, str(laid.cases / "cases.txt")]

    def _needs_build(self) -> bool:
        return step.has_build(self._spec.submission)

    def _builder_spec(self) -> JobSpec:
        """Return the job whose submission is built."""
        return self._spec

    def _build(self) -> bool:
        """Build the submission before its import. Return False if that ends the run.

        The task's own harness imports it within the time limit, so the build may use a GPU.
        """
        laid = self._lay_out([])
        self._has_run = True
        self._record.begin(StageName.IMPORT, self._spec.limits.import_s, 0)
        built = step.Builder(
            self._builder_spec(),
            files=laid.files,
            environment=self._environment(laid.root),
            boxed=self._boxed,
            store=store.from_environment(os.environ),
        ).get(also_with_gpu=self._spec.backend is Backend.CUDA)
        self._record.build(built)
        if built.too_much is not None:
            return False
        if self._boxed:
            self._built = built.build
        elif built.build is None:
            # The build was cut off, and its stale lock would block every later one.
            self._build_folders = job_environment.build_folders(self._folder / "built-anew", boxed=False)
        self._record.end(Verdict.ACCEPTED, Reason.NONE, "")
        return True

    def _start(self, argv: list[str], laid: Laid, extra: dict[str, str], *, fd: int) -> processes.Child:
        limits = self._spec.limits
        self._has_run = True
        box = sandbox.Sandbox(
            user_id=sandbox.CONTESTANT_ID,
            files=laid.files,
            devices=accelerators.of(self._spec.backend).nodes(os.environ),
            visible=(str(laid.site), str(laid.cases)),
            network=self._spec.multi_gpu,
            memory_bytes=job_environment.group_memory(self._spec),
        )
        own = own_variables(self._spec.backend, self._memory_bytes, boxed=self._boxed) | {
            "PYTHONPATH": str(laid.site)
        }
        with step.unpacked_first(self._built, argv) as (argv, more):
            child = processes.start(
                argv,
                cwd=laid.files,
                environment=self._environment(laid.root) | own | extra,
                fds=[fd, *more],
                keep_output=limits.kept_output_bytes,
                cap_output=limits.output_bytes,
                box=box if self._boxed else None,
            )
        os.close(fd)
        return child

    def _environment(self, root: Path) -> dict[str, str]:
        """Return the environment that a build and the stages share."""
        return (
            processes.clean_environment(None if self._boxed else root / "caches", os.environ)
            | self._build_folders
            | job_environment.backend_environment(self._spec.backend)
            | self._compiling()
            | libraries.of_job(self._spec, os.environ)
            | compilers.unpacked(self._build_folders)
        )

    def _compiling(self) -> dict[str, str]:
        """Return the settings of compilers, the same for the build and the stages."""
        return job_environment.compiler_environment(self._spec.backend, os.environ)

    def _variables(self, invocation: Invocation, fd: int) -> dict[str, str]:
        found = {"POPCORN_FD": str(fd)}
        if invocation.seed is not None:
            found["POPCORN_SEED"] = str(invocation.seed)
        if self._spec.multi_gpu:
            found["POPCORN_GPUS"] = str(visible_gpus())
        return found

    def _lay_out(self, cases: list[PlannedCase], *, submission: str | None = None) -> Laid:
        """Write the files to a fresh folder: no stage sees what an earlier one left behind."""
        tree = self._spec.submission
        tree = tree if submission is None else SourceTree.of(submission, tree.entry)
        laid = Laid(Path(tempfile.mkdtemp(prefix="own-", dir=self._folder)))
        for folder in (laid.files, laid.site, laid.cases):
            folder.mkdir()
        files = {**self._spec.sources, **tree.files}
        job_environment.write_files(laid.files, files, self._spec.data)
        (laid.site / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
        lines = "".join(case_line(case.parameters) + "\n" for case in cases)
        (laid.cases / "cases.txt").write_text(lines, encoding="utf-8")
        sandbox.make_readable(laid.root)
        return laid

    def _keep_output(self, child: processes.Child, invocation: Invocation) -> None:
        """Keep what was printed, but by a process that has met hidden cases."""
        assert child.stdout is not None
        stdout, stderr = child.stdout.finish(), standard_error(child)
        if not invocation.is_hidden:
            self._record.stdout = joined(self._record.stdout, stdout)
            self._record.stderr = joined(self._record.stderr, stderr)
            self._record.exit_code = child.wait(0.0)


def own_variables(backend: Backend, memory_bytes: int, *, boxed: bool) -> dict[str, str]:
    """Return the variables for the code that Python runs at the harness's start."""
    return {
        "KERNELCUP_PARENT": job_environment.parent_id(boxed=boxed),
        "KERNELCUP_MEMORY": str(0 if backend is Backend.CUDA else memory_bytes),
        "KERNELCUP_HARNESS": str(ROOT),
    }


def case_line(parameters: Parameters) -> str:
    """Write a case in the text form of the contract: ``key: value; key: value``."""
    return "; ".join(f"{key}: {value}" for key, value in parameters.items())


def joined(first: CapturedOutput, second: CapturedOutput) -> CapturedOutput:
    """Put the output of two processes together."""
    return CapturedOutput(
        text=first.text + second.text,
        total_bytes=first.total_bytes + second.total_bytes,
        truncated=first.truncated or second.truncated,
    )


def visible_gpus() -> int:
    """Return the number of GPUs that the job may use: those named to it, else all of the machine."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return len(named.split(","))
    return max(1, sum(1 for _ in Path("/dev").glob("nvidia[0-9]*")))


def environment_without_torch(backend: Backend) -> dict[str, Any]:
    """Describe the machine; this process does not import torch."""
    device = accelerators.of(backend).describe_without_torch()
    return {**machine.machine(), "torch": machine.version_of("torch"), **device}
