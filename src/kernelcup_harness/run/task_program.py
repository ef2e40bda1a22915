"""Runs a task's own harness in C++ or CUDA C++, an ``eval.cu``, under the ``POPCORN_*`` contract.

It is compiled together with the submission in the build sandbox, once; then it runs as its author wrote it, as
``MAIN MODE CASES``, and shares its process with the submission.
"""

from __future__ import annotations

import dataclasses

from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import JobSpec, SourceTree
from kernelcup_harness.run.task_harness import Laid, OwnHarness
from kernelcup_harness.run.task_harness_results import Invocation
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import libraries, options


def is_program(spec: JobSpec) -> bool:
    """Return whether a task's own harness is compiled."""
    return spec.main is not None and not languages.of(spec.main).runs_code


class OwnProgram(OwnHarness):
    """All stages of one job under the task's own compiled harness."""

    def _needs_build(self) -> bool:
        return True

    def _alone(self, _invocation: Invocation, _deadline: float) -> None:
        """Return None: no other submission compiles."""

    def _builder_spec(self) -> JobSpec:
        """Return the job with the harness as what is built: with the submission, which is one of its sources."""
        assert self._spec.main is not None
        entry = SourceTree.of(self._spec.sources[self._spec.main], self._spec.main)
        return dataclasses.replace(self._spec, submission=entry)

    def _argv(self, invocation: Invocation, laid: Laid) -> list[str]:
        assert self._spec.main is not None
        named = (self._spec.main, invocation.mode, str(laid.cases / "cases.txt"))
        return processes.python_argv("kernelcup_harness.submission.cuda.compiling", "run_program", *named)

    def _compiling(self) -> dict[str, str]:
        linked = {libraries.VARIABLE: ",".join(self._spec.libraries)} if self._spec.libraries else {}
        return super()._compiling() | linked | options.of_program(self._spec.cuda)
