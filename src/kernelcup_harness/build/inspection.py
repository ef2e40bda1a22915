"""Compiles a submission without a device, in a sandbox, for people at a terminal: nothing is judged."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from kernelcup_harness.isolation import environments, job_environment, processes, sandbox
from kernelcup_harness.protocol import HarnessKind, JobSpec, ProtocolError, from_json
from kernelcup_harness.protocol.compiled import Compiled
from kernelcup_harness.submission.cuda import libraries, options

MOST_OUTPUT = 16 << 20


def inspect(spec: JobSpec, architectures: Sequence[str], listings: Sequence[str]) -> Compiled:
    """Return what compilers make of a job's submission."""
    try:
        chosen = environments.named(spec.environment, os.environ)
    except environments.NoEnvironment as error:
        return Compiled(trouble=str(error))
    environ = {**os.environ, **chosen.variables}
    if lacked := libraries.trouble(spec.libraries, environ):
        return Compiled(trouble=lacked)
    with tempfile.TemporaryDirectory(prefix="kernelcup-compile-") as folder:
        return in_sandbox(spec, Path(folder), (",".join(architectures), ",".join(listings)))


def in_sandbox(spec: JobSpec, folder: Path, wanted: tuple[str, str]) -> Compiled:
    """Compile in a process of its own, in a sandbox where there is one."""
    files = folder / "files"
    entry, asked, hidden = what_is_compiled(spec)
    lent = {name: text for name, text in spec.sources.items() if name not in hidden}
    job_environment.write_files(files, {**lent, **spec.submission.files})
    boxed = sandbox.is_there()
    memory_bytes = job_environment.memory_limit(spec)
    clean = processes.clean_environment(None if boxed else folder / "caches", os.environ)
    arguments = (job_environment.parent_id(boxed=boxed), str(memory_bytes), entry, *wanted)
    child = processes.start(
        processes.python_argv("kernelcup_harness.submission.cuda.inspection", "main", *arguments),
        cwd=files,
        environment=clean | libraries.of_job(spec, os.environ) | asked,
        fds=[],
        keep_output=MOST_OUTPUT,
        cap_output=MOST_OUTPUT,
        box=sandbox.Sandbox(user_id=sandbox.CONTESTANT_ID, files=files) if boxed else None,
    )
    job_environment.watch(child, time.monotonic() + spec.limits.import_s, memory_bytes)
    assert child.stdout is not None
    assert child.stderr is not None
    said, log = child.stdout.finish().text, child.stderr.finish().text
    if child.killed_for:
        return Compiled(error=f"compiling it was ended for {child.killed_for[0]}")
    try:
        found: Compiled = from_json(Compiled, json.loads(said))
    except (ValueError, ProtocolError):
        return Compiled(trouble=f"the compiler's process ended with {child.wait(0.0)}: {log[-2000:]}")
    return found


def what_is_compiled(spec: JobSpec) -> tuple[str, dict[str, str], Collection[str]]:
    """Return the file to compile, the variables that ask for it, and which files of the task it does not see.

    That is the submission; the task's functions, where they are handed in as one; or, under a harness of
    the task's own, the program that includes the submission.
    """
    if spec.harness is HarnessKind.OWN and spec.main is not None:
        return spec.main, options.of_program(spec.cuda), ()
    entry = spec.submission.entry
    if entry == spec.reference_module:
        return entry, options.of_leaderboard(spec.cuda, spec.submission.code), ()
    return entry, options.of_submission(spec.cuda), spec.private_files
