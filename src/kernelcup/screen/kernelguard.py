"""A second opinion in addition to our own rules: the package ``kernelguard``, if it is installed.

It runs in a process of its own, with limits of time and memory, because its patterns are not designed for
texts that try to slow them down.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

from kernelcup.screen.findings import MAX_FINDINGS, SHOWN_SOURCE, Finding, Screening

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


class SecondOpinion(Protocol):
    """Rules of a third party."""

    @property
    def name(self) -> str:
        """Name and version, for example ``kernelguard 0.3.2``."""

    def findings(self, text: str) -> list[Finding]:
        """Return its findings in a text. Its own failure is a finding, never an error."""


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

    def findings(self, text: str) -> list[Finding]:
        """Return its patterns as findings, or ``kernelguard:no_answer`` if it did not end within its limits."""
        command = [sys.executable, "-I", "-c", _CHILD.format(memory=self._memory_bytes)]
        content = text.encode("utf-8", "replace")
        try:
            done = subprocess.run(
                command, input=content, capture_output=True, timeout=self._limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return [_finding("no_answer", f"It had not ended after {self._limit_s:g} s.")]
        if done.returncode != 0:
            return [_finding("no_answer", f"It ended with exit code {done.returncode}.")]
        try:
            found: list[tuple[str, str, str]] = [tuple(each) for each in json.loads(done.stdout)]
        except ValueError:
            return [_finding("no_answer", "It answered with something that cannot be read.")]
        return [_finding(pattern.lower(), f"{severity}: {evidence}") for pattern, severity, evidence in found]


def with_opinion(screening: Screening, text: str, opinion: SecondOpinion | None) -> Screening:
    """Return a screening with the findings of a second opinion."""
    if opinion is None:
        return screening
    added = opinion.findings(text)
    room = max(0, MAX_FINDINGS - len(screening.findings))
    return dataclasses.replace(
        screening,
        rules_version=f"{screening.rules_version}, {opinion.name}",
        findings=(*screening.findings, *added[:room]),
        left_out=screening.left_out + len(added[room:]),
    )


def _finding(word: str, explanation: str) -> Finding:
    cut = explanation if len(explanation) <= SHOWN_SOURCE else f"{explanation[: SHOWN_SOURCE - 1]}…"
    return Finding(tag=f"{PACKAGE}:{word}", line=0, column=0, source="", explanation=cut)
