"""Findings in a submission's text, and their tags."""

from __future__ import annotations

from dataclasses import dataclass

MAX_FINDINGS = 200
SHOWN_SOURCE = 160
NO_ANSWER = "no_answer"
"""The tag of a text that was not looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """One place in a text for reviewers to look at."""

    tag: str
    """A word prefixed with its source, or :data:`NO_ANSWER`."""
    line: int
    """From 1; 0 if the whole text is meant."""
    column: int
    """From 1; 0 if the whole line is meant."""
    source: str
    """The line, or the part of a long one around the place."""
    explanation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Screening:
    """The findings in one text."""

    rules_version: str
    findings: tuple[Remark, ...] = ()
    left_out: int = 0
    """The number of findings beyond those in ``findings``."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags, each once, in the order of the findings."""
        return tuple(dict.fromkeys(finding.tag for finding in self.findings))
