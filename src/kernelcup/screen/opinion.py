"""A second opinion in addition to our own rules."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from kernelcup.screen.findings import MAX_FINDINGS, Finding, Screening


class SecondOpinion(Protocol):
    """Rules of a third party."""

    @property
    def name(self) -> str:
        """Name and version, for example ``kernelguard 0.3.2``."""

    def findings(self, text: str) -> list[Finding]:
        """Return its findings in a text. Its own failure is a finding, never an error."""


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
