"""A second opinion beside our own rules."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from kernelcup.screen.findings import MAX_FINDINGS, Finding, Screening


class SecondOpinion(Protocol):
    """Somebody else's rules."""

    @property
    def name(self) -> str:
        """Name and version, such as ``kernelguard 0.3.2``."""

    def findings(self, text: str) -> list[Finding]:
        """Return what it says about a text. Its own failure is a finding, never an error."""


def with_opinion(screening: Screening, text: str, opinion: SecondOpinion | None) -> Screening:
    """Return a screening with what a second opinion adds."""
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
