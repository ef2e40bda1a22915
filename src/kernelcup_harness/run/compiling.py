"""The settings of compilers for a job: the same for a build and for the calls of what was built."""

from __future__ import annotations

import os
import threading

from kernelcup_harness.isolation import job_environment
from kernelcup_harness.protocol import Backend, JobSpec, Mode, SourceTree, variables
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import libraries, options


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
