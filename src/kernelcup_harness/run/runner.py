"""A job from spec to report: folders, processes, limits, clean-up. No torch, no CUDA, no user code."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelcup_harness.build import store
from kernelcup_harness.core.plan import meets_hidden
from kernelcup_harness.device import accelerators
from kernelcup_harness.isolation import cgroups, environments, job_users, origins, processes, sandbox
from kernelcup_harness.isolation.job_environment import backend_environment
from kernelcup_harness.isolation.sizes import ranks_of
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    Mode,
    Reason,
    RunReport,
    SandboxPolicy,
    StageName,
    Verdict,
    device_of,
    seeds,
)
from kernelcup_harness.run import empty_call, listing, own_job, task_harness, task_program
from kernelcup_harness.run.binaries import Binaries
from kernelcup_harness.run.counters import CountersRun
from kernelcup_harness.run.record import Record
from kernelcup_harness.run.standard import READY_S, StandardRun
from kernelcup_harness.run.workers import JUDGE_OUTPUT_BYTES as JUDGE_OUTPUT_BYTES
from kernelcup_harness.run.workers import NotStarted, Workers
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import libraries

MOST_JUDGED = 3
"""A job is judged again twice at most, while the machine is too busy to measure it."""
EventSink = Callable[[dict[str, Any]], None]


def run_job(spec: JobSpec, on_event: EventSink, ahead: Workers | None = None) -> RunReport:
    """Judge one submission and report.

    Args:
        spec: The job.
        on_event: Receives stages, samples and cases as they come.
        ahead: Processes that were started before the job came; used if they fit, ended either way.
    """
    processes.adopt_orphans()
    began, judged = time.monotonic(), 0
    limits = spec.limits
    until = began + limits.import_s + limits.test_s + limits.benchmark_s + limits.ranked_s
    while True:
        judged, last = judged + 1, time.monotonic()
        record, secret = judged_once(spec, on_event, ahead if judged == 1 else None)
        # Not before: a submission must not be able to keep the machine busy.
        is_busy = empty_call.excuse(record, empty_call.trouble)
        now = time.monotonic()
        # Its seconds count, and what an audit has found must not be lost.
        if not is_busy or judged == MOST_JUDGED or record.found or 2 * now - last > until:
            return record.report(secret=secret, duration_s=now - began)


def judged_once(spec: JobSpec, on_event: EventSink, ahead: Workers | None) -> tuple[Record, bytes]:
    """Judge one submission; return the record and the secret that its inputs follow from. Nothing of it runs then."""
    record, secret, boxed = opened(spec, on_event)
    if (problem := cannot_run(spec, boxed=boxed)) is not None:
        record.fail(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.MACHINE, problem)
        return record, secret
    if spec.backend is Backend.CUDA:
        try:
            record.origins = origins.read(os.environ)
        except origins.NoOrigins as none:
            record.no_origins = str(none)
    sweep()
    with job_folder() as folder:
        try:
            if spec.harness is HarnessKind.OWN:
                if ahead is not None:
                    ahead.stop()
                own = task_program.OwnProgram if task_program.is_program(spec) else task_harness.OwnHarness
                own(spec, secret, folder, record, boxed=boxed).run()
            else:
                record = standard(spec, secret, folder, record, boxed=boxed, ahead=ahead)
                if record.is_good and record.binary.gz64:
                    listed = time.monotonic()
                    ran = record.kernels()
                    record.files = listing.files(record.binary, ran, folder / "listing", boxed=boxed)
                    record.phases["listing"] = time.monotonic() - listed
                if spec.mode is Mode.PROFILE and spec.backend is Backend.CUDA and record.is_good:
                    inner = folder / "counters"
                    inner.mkdir()
                    record.counters = CountersRun(spec, secret, inner, record.environment, boxed=boxed).run()
                    record.phases["profile/ncu"] = record.counters.seconds
        finally:
            processes.kill_descendants()
    return record, secret


def standard(
    spec: JobSpec, secret: bytes, folder: Path, record: Record, *, boxed: bool, ahead: Workers | None
) -> Record:
    """Judge a job with the standard harness, again without each kept binary that cannot be replayed.

    Return the record of the last time.
    """
    device = device_of(accelerators.of(spec.backend).state()) if spec.backend is Backend.CUDA else ""
    binaries, first, made = Binaries(spec, device), record, 0
    while True:
        StandardRun(binaries.spec, secret, folder, record, boxed=boxed, ahead=ahead).run()
        if record.refused is None:
            record.binaries = binaries.used(dueled=record.duel is not None)
            own_job.blame(spec, folder / "own", record, boxed=boxed)
            return record
        binaries.refuse(record.refused)
        made += 1
        folder, ahead, record = folder / f"again-{made}", None, first.again(binaries.spec)
        folder.mkdir()
        record.beside = binaries.finding


def build_ahead(spec: JobSpec) -> RunReport | None:
    """Compile what a job needs into the machine's store of builds, and judge nothing.

    Return the report if that ends the job, since compiling took too much; else None, also where nothing can be kept.
    """
    processes.adopt_orphans()
    began = time.monotonic()
    record, secret, boxed = opened(spec, lambda _event: None)
    keeps = boxed and sandbox.has_own_names() and store.from_environment(os.environ) is not None
    is_standard = spec.harness is HarnessKind.STANDARD
    if not keeps or not spec.build_scope or not is_standard or cannot_run(spec, boxed=boxed) is not None:
        return None
    with job_folder() as folder:
        try:
            ended = StandardRun(spec, secret, folder, record, boxed=boxed, ahead=None).build()
        finally:
            processes.kill_descendants()
    return record.report(secret=secret, duration_s=time.monotonic() - began) if ended else None


def opened(spec: JobSpec, on_event: EventSink) -> tuple[Record, bytes, bool]:
    """Return the record of a job with its surroundings, the secret, and whether there is a sandbox for it."""
    secret = bytes.fromhex(spec.secret_seed) if spec.secret_seed else seeds.draw_secret()
    record = Record(spec, seeds.commitment(secret), on_event)
    network = spec.multi_gpu
    boxed = spec.sandbox is not SandboxPolicy.NONE and sandbox.is_there(network=network)
    own_loopback = {"network": "its own loopback"} if network else {}
    in_force = sandbox.describe(network=network) | own_loopback if boxed else {"kind": "none"}
    record.environment["sandbox"] = in_force
    record.environment["environment"] = environment_of(spec)
    return record, secret, boxed


def cannot_run(spec: JobSpec, *, boxed: bool) -> str | None:
    """Return the reason why this machine cannot run a job, None if it can."""
    if spec.sandbox is SandboxPolicy.REQUIRED and not boxed:
        return (
            "this job asks for a sandbox and the machine has none; `kernelcup doctor` explains how to get one"
        )
    if spec.sandbox is SandboxPolicy.REQUIRED and (why := sandbox.unranked()):
        return f"ranked runs need another sandbox: {why}; `kernelcup doctor` explains how to get one"
    if spec.sandbox is SandboxPolicy.REQUIRED and meets_hidden(spec) and not sandbox.has_own_names():
        return (
            "this job has hidden cases, and the machine's sandbox is not bubblewrap: processes see each other's files "
            "there; `kernelcup doctor` explains how to get it"
        )
    try:
        chosen = environments.named(spec.environment, os.environ)
    except environments.NoEnvironment as error:
        return str(error)
    environ = {**os.environ, **backend_environment(spec.backend), **chosen.variables}
    if trouble := compiler_trouble(spec, environ):
        return trouble
    accelerator = accelerators.of(spec.backend)
    if not accelerator.is_here():
        return "this machine has no GPU that can be used"
    if spec.backend is Backend.CUDA and (there := visible_gpus(os.environ)) < ranks_of(spec):
        return f"this job takes {ranks_of(spec)} GPUs of one machine and has {there}"
    return accelerator.sandbox_trouble() or None if boxed else None


def visible_gpus(environ: Mapping[str, str]) -> int:
    """Return how many GPUs a job may use: those that are named, else all of this machine."""
    named = environ.get("CUDA_VISIBLE_DEVICES", "")
    return len(named.split(",")) if named else len(list(Path("/dev").glob("nvidia[0-9]*")))


def environment_of(spec: JobSpec) -> dict[str, str]:
    """Describe the environment of a job for its report; without a hash if this machine does not have it."""
    try:
        found = environments.named(spec.environment, os.environ)
    except environments.NoEnvironment:
        return {"name": spec.environment}
    return {"name": found.name, "hash": found.hash, "packages": environments.packages(found)}


def compiler_trouble(spec: JobSpec, environ: Mapping[str, str]) -> str:
    """Return which library or compiler a job lacks on this machine, empty if none."""
    if lacked := libraries.trouble(spec.libraries, environ):
        return lacked
    names = [tree.entry for tree in (spec.submission, spec.rival) if tree is not None]
    names.append(spec.main or "" if spec.harness is HarnessKind.OWN else spec.reference_module)
    return next(filter(None, (languages.of(name).trouble(Path(name), environ) for name in names)), "")


@contextmanager
def started_ahead(backend: Backend, ranks: int = 0) -> Iterator[Workers]:
    """Start judge and contestants, and wait until they have imported everything. Raise ``NotStarted``.

    Args:
        backend: What they run on.
        ranks: On how many GPUs a job works at once; 0 for a job on one.
    """
    if trouble := accelerators.of(backend).sandbox_trouble():
        raise NotStarted(trouble)
    processes.adopt_orphans()
    sweep()
    with job_folder() as folder:
        try:
            boxed = sandbox.is_there(network=ranks > 0)
            workers = Workers(backend, folder, boxed=boxed, ranks=ranks)
            workers.wait_until_ready(READY_S)
            yield workers
            workers.stop()
        finally:
            processes.kill_descendants()


@contextmanager
def job_folder() -> Iterator[Path]:
    """Create a folder for a job and remove it afterwards, at any depth, with what the job has left elsewhere."""
    folder = tempfile.mkdtemp(prefix=f"{folder_prefix()}{os.getpid()}-")
    try:
        yield Path(folder)
    finally:
        # shutil.rmtree recurses, and a submission may nest folders deeper than Python's recursion limit.
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)
        job_users.leave()


def folder_prefix() -> str:
    """Return the prefix of job folders of runners that see the same process ids as this one."""
    return f"{sandbox.FOLDER_PREFIX}{cgroups.namespace()}-"


def sweep() -> None:
    """Remove what killed runners left behind."""
    cgroups.sweep()
    job_users.sweep()
    for path in Path(tempfile.gettempdir()).glob(f"{folder_prefix()}*-*"):
        owner = "-".join(path.name.removeprefix(sandbox.FOLDER_PREFIX).split("-")[:2])
        if cgroups.is_orphan(owner):
            subprocess.run(["rm", "-rf", "--", str(path)], check=False, stderr=subprocess.DEVNULL)
