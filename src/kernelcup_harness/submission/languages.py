"""Finds the language of a submission, or of a task, by the name of its entry."""

from __future__ import annotations

import importlib
from pathlib import Path, PurePosixPath
from typing import Any

from kernelcup_harness.submission.port import SubmissionLanguage

CUDA_ENDINGS = (".cu", ".cuh", ".cpp")


def of(entry: str) -> SubmissionLanguage:
    """Return the language of a submission; Python if the name tells nothing."""
    if PurePosixPath(entry).suffix.lower() in CUDA_ENDINGS:
        from kernelcup_harness.submission.cuda.language import Cuda

        return Cuda()
    from kernelcup_harness.submission.python import Python

    return Python()


def task_functions(entry: str) -> Any:
    """Return what has the functions of a task: a module, or a library that is compiled from C++."""
    if of(entry).runs_code:
        return importlib.import_module(entry)
    from kernelcup_harness.submission.cuda.leaderboard import Leaderboard

    return Leaderboard(Path(entry))
