"""What a page calls the parts of a report: stages, phases, states, cases."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kernelcup.app.results.comparisons import ComparedCase
from kernelcup.domain import JobState
from kernelcup.http.pages.submissions import report_plots
from kernelcup.http.pages.submissions.close_up import close_up
from kernelcup.reporting import columns, timeline, words
from kernelcup.reporting.bottlenecks import explain, roofline
from kernelcup.reporting.phrases import change_text
from kernelcup.reporting.report import parameters_text
from kernelcup_harness.protocol import CaseResult, Difference, StageName

STAGES = {
    StageName.IMPORT: "import",
    StageName.TEST: "tests",
    StageName.BENCHMARK: "benchmarks",
    StageName.RANKED: "ranked benchmarks",
    StageName.PROFILE: "profile",
}
PHASES = {
    "start": "start",
    "build": "compile",
    "import": "import",
    "load": "load",
    "test": "tests",
    "benchmark": "benchmarks",
    "ranked": "ranked",
    "profile": "profile",
    "canary": "calibration",
    "calibration": "calibration",
    "no-ops": "calibration",
    "duel": "duel",
}
"""Names of phases, by the first part of their key; all others are shown together."""
OTHER_PHASE = "other"

MOST_KEYS = 3
WAITS_NEXT = "You may close this page; the result stays here."

STATES = {
    JobState.QUEUED: "waits",
    JobState.RUNNING: "runs",
    JobState.HALTED: "waits for an admin",
    JobState.CANCELLED: "cancelled",
    JobState.QUARANTINED: "under review",
    JobState.REJECTED: "rejected",
    JobState.DONE: "done",
}


def state_text(state: JobState) -> str:
    """Return a job's state in words: ``waits``."""
    return STATES[state]


def stage_text(name: str) -> str:
    """Return a stage's name: ``ranked benchmarks``."""
    return next((words for stage, words in STAGES.items() if stage == name), name)


def shared_keys(cases: Sequence[CaseResult]) -> tuple[str, ...]:
    """Return the names of the parameters but the seed, where all public cases have the same few."""
    found = {tuple(key for key in case.parameters if key != "seed") for case in cases if case.parameters}
    keys = found.pop() if len(found) == 1 else ()
    return keys if len(keys) <= MOST_KEYS else ()


def case_text(case: CaseResult | ComparedCase, keys: Sequence[str] = ()) -> str:
    """Return a case's parameters without its seed: ``height 512, width 512``; ``hidden`` for a hidden one.

    Where the column is headed by their names: ``512 × 512``.
    """
    if isinstance(case, CaseResult) and case.hidden and not case.parameters:
        return "hidden"
    if keys:
        return " × ".join(str(case.parameters[key]) for key in keys)
    shown = {key: value for key, value in case.parameters.items() if key != "seed"} or case.parameters
    return ", ".join(f"{key} {value}" for key, value in shown.items()) or "no parameters"


def off_by(element: Difference) -> str:
    """Return how far an element is from what is expected; empty where they are no numbers."""
    try:
        return f"{abs(float(element.actual) - float(element.expected)):.4g}"
    except (ValueError, OverflowError):
        return ""


FILTERS = {
    "change": change_text,
    "state_text": state_text,
    "stage_text": stage_text,
    "case_text": case_text,
    "kernel_name": explain.demangled,
    "parameters_text": parameters_text,
    "off_by": off_by,
    "setting": explain.setting,
    "sentences": explain.sentences,
    "kernels": explain.rows,
    # Names are escaped there.
    "roofline": lambda found: Markup(roofline.picture(found)),
    "trace_picture": lambda trace_gz64: Markup(timeline.picture(trace_gz64 or "")),
    "trust_means": words.TRUST.__getitem__,
    "error_map": report_plots.error_map,
    "map_caption": report_plots.map_caption,
    "close_up": close_up,
    "samples": report_plots.samples,
    "rates": columns.rates,
    "times_as": columns.times,
}
