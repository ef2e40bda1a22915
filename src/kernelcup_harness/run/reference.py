"""The task's own functions in C++ or CUDA C++: compiled in the build sandbox, loaded by the judge alone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from kernelcup_harness.build import step, store
from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.job_environment import backend_environment, write_files
from kernelcup_harness.protocol import JobSpec, SourceTree
from kernelcup_harness.protocol.variables import CHECKED
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import options

SCOPE = "task"
"""Scope of the builds: not a submission's author's, since everyone's jobs use them."""


def is_compiled(spec: JobSpec) -> bool:
    """Return whether a task's functions are compiled."""
    return not languages.of(spec.reference_module).runs_code


def environment(spec: JobSpec, compilers: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for compiling them, the same for the build and the judge.

    ``compilers`` are those for the submission; their checks are for its tests only.
    """
    text = spec.sources.get(spec.reference_module, "")
    usual = {name: value for name, value in compilers.items() if name != CHECKED}
    return usual | options.of_leaderboard(spec.cuda, text)


def builder(spec: JobSpec, folder: Path, compilers: Mapping[str, str], keep: Collection[int]) -> step.Builder:
    """Return what builds them, from the task's files alone."""
    name = spec.reference_module
    as_submission = SourceTree.of(spec.sources.get(name, ""), name)
    scope = SCOPE if spec.build_scope else ""
    write_files(folder, spec.sources)
    clean = processes.clean_environment(None, os.environ)
    return step.Builder(
        dataclasses.replace(spec, submission=as_submission, build_scope=scope),
        files=folder,
        environment=clean | backend_environment(spec.backend) | environment(spec, compilers),
        boxed=True,
        store=store.from_environment(os.environ),
        keep=keep,
    )
