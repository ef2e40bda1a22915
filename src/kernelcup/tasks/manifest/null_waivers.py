"""Check ``waive_nulls``: the null submissions that a task may accept, with reasons."""

from __future__ import annotations

from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.schema import TaskShape
from kernelcup.tasks.manifest.validation import did_you_mean
from kernelcup_harness.protocol.lint import Null

KEY = "waive_nulls"


def check_waivers(shape: TaskShape, findings: Findings) -> None:
    """Add a problem for each name that is not a null submission, and for each missing reason."""
    known = [null.value for null in Null]
    for name, reason in shape.waive_nulls.items():
        if name not in known:
            guess = did_you_mean(name, known)
            text = f"is no null submission;{guess} they are {', '.join(known)}"
            findings.at_key((KEY, name), text)
        elif not reason.strip():
            findings.at_value((KEY, name), "must say why this answer may be accepted")
