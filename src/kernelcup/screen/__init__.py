"""The static screen: looks at a submission's text, never runs it, and hangs tags on it for reviewers.

A tag is a hint, never a verdict. Nobody is protected by it: who wants to can write code that no
rule here recognises. What judges is the harness.
"""

from __future__ import annotations

from kernelcup.screen.findings import Finding, Screening, Tag
from kernelcup.screen.screening import RULES_VERSION, screen

__all__ = ["RULES_VERSION", "Finding", "Screening", "Tag", "screen"]
