"""Read how a task's score is made: ``ranking_by``, ``baseline``, ``weights`` and ``partial``."""

from __future__ import annotations

import math
import re

from kernelcup.domain import Language, RankingBy
from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.reference import REFERENCE
from kernelcup.tasks.manifest.schema import TaskShape
from kernelcup.tasks.sources.files import SourceReader, Sources
from kernelcup_harness.protocol import HarnessKind

MODULE = re.compile(r"[A-Za-z_]\w*(/[A-Za-z_]\w*)*\.py", re.ASCII)


def read_score(
    shape: TaskShape, sources: Sources, harness: HarnessKind, reader: SourceReader, findings: Findings
) -> None:
    """Add the baseline's text to the sources, and a problem for each part of a score that makes no sense."""
    is_speedup = shape.ranking_by is RankingBy.SPEEDUP
    for key in ("baseline", "partial"):
        if getattr(shape, key) and not is_speedup:
            findings.at_key((key,), "is for `ranking_by: speedup` only")
    if shape.partial and shape.own_share is not None:
        findings.at_key(("partial",), "cannot stand beside `own_share`, which asks something of each case")
    _check_weights(shape, findings)
    if not is_speedup:
        return
    if harness is HarnessKind.OWN:
        findings.at_value(
            ("ranking_by",), "`speedup` needs `harness: standard`: an own harness measures no baseline"
        )
    elif shape.baseline:
        _read_baseline(shape, sources, reader, findings)
    elif shape.lang is Language.PYTHON and "ref_kernel" not in sources.texts.get(REFERENCE, "ref_kernel"):
        text = "`speedup` needs a `baseline`, since reference.py has no `ref_kernel`"
        findings.at_value(("ranking_by",), text)


def _read_baseline(shape: TaskShape, sources: Sources, reader: SourceReader, findings: Findings) -> None:
    if shape.lang is not Language.PYTHON or not MODULE.fullmatch(shape.baseline):
        what = "must be a Python file with `custom_kernel`, such as `solutions/baseline.py`"
        findings.at_value(("baseline",), f"{what}, of a task with `lang: py`")
    elif shape.baseline == sources.submission_name:
        findings.at_value(("baseline",), "is the name of submissions")
    elif shape.baseline not in sources.texts:
        text = reader.text(shape.baseline, ("baseline",))
        if text is not None:
            sources.texts[shape.baseline] = text
            sources.labels[shape.baseline] = reader.label(shape.baseline)


def _check_weights(shape: TaskShape, findings: Findings) -> None:
    count = len(shape.benchmarks) + len(shape.hidden_benchmarks)
    if not shape.weights:
        return
    if shape.ranking_by is RankingBy.LAST:
        findings.at_key(("weights",), "mean nothing with `ranking_by: last`, where one benchmark counts")
    elif len(shape.weights) != count:
        text = f"expected {count} numbers, one for each of `benchmarks`, then of `hidden_benchmarks`"
        findings.at_key(("weights",), f"{text}; found {len(shape.weights)}")
    for index, weight in enumerate(shape.weights):
        if not (math.isfinite(weight) and weight > 0):
            findings.at_value(("weights", index), "must be a number above 0")
