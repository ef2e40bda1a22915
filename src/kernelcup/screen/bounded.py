"""The static screen in a process of its own, with limits of time and memory."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable

from kernelcup.screen.findings import Finding, Screening, Tag
from kernelcup.screen.kernelguard import SecondOpinion, with_opinion
from kernelcup.screen.run import RULES_VERSION, screen

LIMIT_S = 10.0
MEMORY_BYTES = 2 * 1024**3
NICE = 10
"""The screen has a lower priority than judging and requests."""

NATIVE, PYTHON = "native", "python"


class BoundedScreen:
    """Screens each file in a process of its own, which is killed if it takes too long.

    Args:
        is_native: Returns whether a file name means C++ or CUDA.
        second_opinion: Additional rules, with limits of their own.
    """

    def __init__(
        self,
        is_native: Callable[[str], bool],
        *,
        second_opinion: SecondOpinion | None = None,
        limit_s: float = LIMIT_S,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._is_native = is_native
        self._second_opinion = second_opinion
        self._limit_s, self._memory_bytes = limit_s, memory_bytes

    def __call__(self, file_name: str, code: str) -> Screening:
        """Return the findings, or the tag ``no_answer`` if the screen did not end within its limits."""
        return with_opinion(self._ours(file_name, code), code, self._second_opinion)

    def _ours(self, file_name: str, code: str) -> Screening:
        language = NATIVE if self._is_native(file_name) else PYTHON
        command = [sys.executable, "-P", "-m", __name__, language, str(self._memory_bytes)]
        try:
            done = subprocess.run(
                command,
                input=code.encode("utf-8", "surrogatepass"),
                capture_output=True,
                timeout=self._limit_s,
                check=True,
            )
            return _read(done.stdout)
        except subprocess.TimeoutExpired:
            return _no_answer(f"The screen had not ended after {self._limit_s:g} s.")
        except subprocess.CalledProcessError as error:
            return _no_answer(f"The screen ended with exit code {error.returncode}.")
        except (OSError, ValueError, TypeError) as error:
            return _no_answer(f"The screen could not be asked: {type(error).__name__}.")


def main(language: str, memory_bytes: str) -> None:
    """Read a text and write its findings: the child process."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    found = screen(code, is_native=language == NATIVE)
    sys.stdout.write(json.dumps(dataclasses.asdict(found)))


def _read(answer: bytes) -> Screening:
    fields = json.loads(answer)
    findings = tuple(Finding(**each) for each in fields.pop("findings"))
    return Screening(findings=findings, **fields)


def _no_answer(explanation: str) -> Screening:
    found = Finding(tag=Tag.NO_ANSWER.value, line=0, column=0, source="", explanation=explanation)
    return Screening(rules_version=RULES_VERSION, findings=(found,))


if __name__ == "__main__":
    main(*sys.argv[1:])
