"""Why a run was not accepted, case by case: its page shows the one to look at first, the others a click away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kernelcup.http.pages.submissions import report_plots, report_words
from kernelcup.http.pages.submissions.close_up import CloseUp, close_up
from kernelcup_harness.protocol import CaseResult, Mismatch, Reason, RunReport, Verdict

MOST = 12
"""Cases of which all is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a run, or one case of it, was not accepted."""

    title: str
    case: CaseResult | None
    message: str
    mismatch: Mismatch | None
    map: Markup
    map_caption: str
    close_up: CloseUp | None
    """The first wrong elements among their neighbours."""
    reason: str
    is_open: bool
    """Whether it is shown without a click: the case to look at, and the first exception."""


def failures_of(report: RunReport) -> tuple[Failure, ...]:
    """Return the cases that were not accepted, or the whole run where no case says why; the first :data:`MOST`."""
    if report.verdict is Verdict.ACCEPTED:
        return ()
    stage = report.stage_report(report.stage) if report.stage is not None else None
    failed = (
        [each for each in stage.cases if each.verdict is not Verdict.ACCEPTED] if stage is not None else []
    )
    cases: list[CaseResult | None] = [*failed] or [None]
    opened = _opened(failed)
    found = (
        _failure(report, case, is_open=at in opened)
        for at, case in enumerate(cases)
        if at < MOST or at in opened
    )
    return tuple(each for each in found if each is not None)


def _opened(failed: Sequence[CaseResult]) -> set[int]:
    """Return which ones to look at first: a wrong answer of more than one element, and an exception."""
    wrong = [at for at, case in enumerate(failed) if case.mismatch is not None]
    large = [at for at in wrong if (found := failed[at].mismatch) is not None and found.total > 1]
    raised = [at for at, case in enumerate(failed) if case.reason is Reason.EXCEPTION]
    return {*(large or wrong)[:1], *raised[:1]} or {0}


def _failure(report: RunReport, case: CaseResult | None, *, is_open: bool) -> Failure | None:
    mismatch = case.mismatch if case is not None else None
    message = case.message if case is not None and case.message else report.message if is_open else ""
    if mismatch is not None:
        # The table says better what the checker's own lines say.
        message = "" if message.startswith(f"{mismatch.where}: ") else message.partition("\n")[0]
    reason = report_words.REASONS.get(report.reason if case is None else case.reason or report.reason, "")
    if mismatch is None and not message and not reason:
        return None
    return Failure(
        title=report_words.mismatch_title(mismatch) if mismatch is not None else reason,
        case=case,
        message=message,
        mismatch=mismatch,
        map=report_plots.error_map(mismatch) if mismatch is not None else Markup(""),
        map_caption=report_plots.map_caption(mismatch) if mismatch is not None else "",
        close_up=close_up(mismatch) if mismatch is not None else None,
        reason=reason if mismatch is not None else "",
        is_open=is_open,
    )
