"""The settings of compilers for a job, the same for a build and for the calls of what was built; and the build of a
task's own functions in C++ or CUDA C++, which the judge alone loads."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from kernelcup_harness.build import step, store
from kernelcup_harness.isolation import job_environment, processes
from kernelcup_harness.isolation.job_environment import backend_environment, write_files
from kernelcup_harness.protocol import Backend, JobSpec, Mode, SourceTree, variables
from kernelcup_harness.protocol.variables import CHECKED
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import libraries, options

SCOPE = "task"
"""Scope of the builds: not a submission's author's, since everyone's jobs use them."""


class AskedCompilers:
    """The GPU to compile for. A thread asks the driver, which takes as long as Python takes to start."""

    def __init__(self, backend: Backend) -> None:
        self._found: dict[str, str] = {}
        self._thread = threading.Thread(target=self._ask, args=(backend,), daemon=True)
        self._thread.start()

    def environment(self) -> dict[str, str]:
        """Return the environment variables for compilers."""
        self._thread.join()
        return self._found

    def _ask(self, backend: Backend) -> None:
        self._found = job_environment.compiler_environment(backend, os.environ)


def settings(spec: JobSpec, tree: SourceTree, compilers: AskedCompilers) -> dict[str, str]:
    """Return the environment variables for compiling a submission."""
    streams = job_environment.stream_environment(spec.backend, tree.text)
    by_interface = not languages.of(tree.entry).runs_code
    asked = options.of_submission(spec.cuda) if by_interface else {}
    checked = {variables.CHECKED: "1"} if by_interface and spec.mode is Mode.TEST else {}
    return compilers.environment() | streams | asked | libraries.of_job(spec, os.environ) | checked


def is_reference_compiled(spec: JobSpec) -> bool:
    """Return whether a task's functions are compiled."""
    return not languages.of(spec.reference_module).runs_code


def reference_environment(spec: JobSpec, compilers: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for compiling them, the same for the build and the judge.

    ``compilers`` are those for the submission; their checks are for its tests only.
    """
    text = spec.sources.get(spec.reference_module, "")
    usual = {name: value for name, value in compilers.items() if name != CHECKED}
    return usual | options.of_leaderboard(spec.cuda, text)


def reference_builder(
    spec: JobSpec, folder: Path, compilers: Mapping[str, str], keep: Collection[int] | None
) -> step.Builder:
    """Return what builds them, from the task's files alone."""
    name = spec.reference_module
    as_submission = SourceTree.of(spec.sources.get(name, ""), name)
    scope = SCOPE if spec.build_scope else ""
    write_files(folder, spec.sources)
    clean = processes.clean_environment(None, os.environ)
    return step.Builder(
        dataclasses.replace(spec, submission=as_submission, build_scope=scope),
        files=folder,
        environment=clean | backend_environment(spec.backend) | reference_environment(spec, compilers),
        boxed=True,
        store=store.from_environment(os.environ),
        keep=keep,
    )
