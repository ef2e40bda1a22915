"""Compile a job's C++ and CUDA C++ on the processor before the job takes a GPU, into the machine's store of builds."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath

from kernelcup.domain import Language
from kernelcup.errors import LaunchCancelled
from kernelcup.launchers.base import COMPILED, COMPILING, Event, stages_s
from kernelcup.launchers.local.harness_output import read_output
from kernelcup.launchers.local.warm_runners import CORES_TO_SPARE, cold
from kernelcup_harness.protocol import HarnessKind, JobSpec, RunReport

RETRY_S = 0.1

logger = logging.getLogger(__name__)


class Compilers:
    """The processor's places for builds.

    Args:
        places: How many builds run at once beside jobs; None means one for each eight cores of the machine. Without
            a place a job compiles when it has its device.
        command: The harness.
        grace_s: Time beyond the limits of a job's stages.
    """

    def __init__(self, places: int | None, command: Sequence[str], *, grace_s: float) -> None:
        self._places = len(os.sched_getaffinity(0)) // CORES_TO_SPARE if places is None else places
        self._free = threading.Semaphore(self._places)
        self._command = (*command[:-1], "--builds", command[-1])
        self._grace_s = grace_s

    def compile(
        self,
        spec: JobSpec,
        environ: Mapping[str, str],
        *,
        on_event: Callable[[Event], None],
        cancelled: threading.Event,
    ) -> RunReport | None:
        """Compile what a job needs. Return the report if that ends the job, None if it has to be judged.

        Raises:
            LaunchCancelled: ``cancelled`` was set.
            LaunchError: The harness did not end as it should.
        """
        if not self._places or not is_compiled(spec):
            return None
        with self._place(cancelled):
            on_event({"event": COMPILING})
            try:
                return self._compiled(spec, environ, cancelled)
            finally:
                on_event({"event": COMPILED})

    def _compiled(
        self, spec: JobSpec, environ: Mapping[str, str], cancelled: threading.Event
    ) -> RunReport | None:
        until = time.monotonic() + stages_s(spec) + self._grace_s
        with cold(self._command, spec, environ, keep=()) as child:
            found = read_output(child, until=until, cancelled=cancelled, on_event=lambda _event: None)
        if found.code != 0:
            logger.warning("%s: compiling ahead ended with %d: %s", spec.job_id, found.code, found.log)
        return found.report if found.code == 0 else None

    @contextmanager
    def _place(self, cancelled: threading.Event) -> Iterator[None]:
        while not self._free.acquire(timeout=RETRY_S):
            if cancelled.is_set():
                raise LaunchCancelled("cancelled while waiting for a compiler")
        try:
            yield
        finally:
            self._free.release()


def is_compiled(spec: JobSpec) -> bool:
    """Return whether a compiler alone, and no code of a submission, makes what a job needs."""
    names = [spec.reference_module, spec.submission.entry]
    names += [spec.rival.entry] if spec.rival is not None else []
    endings = Language.CUDA.endings
    return spec.harness is HarnessKind.STANDARD and any(
        PurePosixPath(each).suffix in endings for each in names
    )
