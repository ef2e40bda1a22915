"""A second opinion for reviewers: the package ``kernelguard``, if it is installed.

It runs in a process of its own, with limits of time and memory, because its patterns are not designed for
texts that try to slow them down.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

from kernelcup.screen.findings import MAX_FINDINGS, NO_ANSWER, SHOWN_SOURCE, Remark, Screening

PACKAGE = "kernelguard"
LIMIT_S = 20.0
MEMORY_BYTES = 2 * 1024**3

# Isolated (-I), so that neither the working directory nor the environment affects imports.
_CHILD = """\
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import kernelguard
text = sys.stdin.buffer.read().decode("utf-8", "replace")
found = kernelguard.analyze_code(text, compute_structural_hash=False)["matched_patterns"]
keys = ("pattern", "severity", "evidence")
sys.stdout.write(json.dumps([[str(each.get(key, "")) for key in keys] for each in found]))
"""


class KernelGuard:
    """Runs the installed ``kernelguard``."""

    def __init__(self, installed: str, *, limit_s: float = LIMIT_S, memory_bytes: int = MEMORY_BYTES) -> None:
        self.name = f"{PACKAGE} {installed}"
        self._limit_s = limit_s
        self._memory_bytes = memory_bytes

    @classmethod
    def if_installed(cls) -> KernelGuard | None:
        """Return the second opinion, None if the package is not installed."""
        try:
            return cls(version(PACKAGE))
        except PackageNotFoundError:
            return None

    def __call__(self, code: str) -> Screening:
        """Return its patterns as findings, or the tag ``no_answer`` if it did not end within its limits."""
        found = self._findings(code)
        return Screening(
            rules_version=self.name,
            findings=tuple(found[:MAX_FINDINGS]),
            left_out=max(0, len(found) - MAX_FINDINGS),
        )

    def _findings(self, text: str) -> list[Remark]:
        command = [sys.executable, "-I", "-c", _CHILD.format(memory=self._memory_bytes)]
        content = text.encode("utf-8", "replace")
        try:
            done = subprocess.run(
                command, input=content, capture_output=True, timeout=self._limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return [_finding(NO_ANSWER, f"It had not ended after {self._limit_s:g} s.")]
        if done.returncode != 0:
            return [_finding(NO_ANSWER, f"It ended with exit code {done.returncode}.")]
        try:
            found: list[tuple[str, str, str]] = [tuple(each) for each in json.loads(done.stdout)]
        except ValueError:
            return [_finding(NO_ANSWER, "It answered with something that cannot be read.")]
        return [
            _finding(f"{PACKAGE}:{pattern.lower()}", f"{severity}: {evidence}")
            for pattern, severity, evidence in found
        ]


def _finding(tag: str, explanation: str) -> Remark:
    cut = explanation if len(explanation) <= SHOWN_SOURCE else f"{explanation[: SHOWN_SOURCE - 1]}…"
    return Remark(tag=tag, line=0, column=0, source="", explanation=cut)
