"""Redact reports for their viewers."""

from __future__ import annotations

import dataclasses

from kernelcup.services.submissions.review_evidence import for_author
from kernelcup_harness.protocol import (
    CapturedOutput,
    CaseResult,
    HarnessKind,
    Mode,
    RunReport,
    StageName,
    StageReport,
    Verdict,
)

WITHHELD = "Withheld: it may reveal the hidden cases."
WITHHELD_RANKED = "Withheld: it was written while the submission was ranked."
WITHHELD_RIVAL = "Withheld: it may reveal another user's submission."


def redact(
    report: RunReport,
    *,
    sees_all: bool,
    done: bool = True,
    is_own_rival: bool = False,
    hides_ranked_failure: bool = False,
) -> RunReport:
    """Return the report without the parts that the submission's author may not see.

    A hidden case keeps only its index and verdict. Texts that the submission or the task's own harness could
    write while it had access to a hidden case, or was ranked, are removed as well. The secret seed is shown once
    the job is done: it was used for this run only, and the run is over.

    Args:
        report: The full report.
        sees_all: Whether the viewer manages the leaderboard.
        done: Whether the job has ended and waits for no review.
        is_own_rival: Whether the viewer also submitted the rival that it was measured in turns with.
        hides_ranked_failure: Whether a failure in the ranked stage may be about a hidden case, whichever case
            it is reported for.
    """
    if sees_all:
        return report
    shown = report if done else dataclasses.replace(report, secret_seed="")
    if shown.quarantine:
        shown = dataclasses.replace(shown, quarantine=for_author(shown.quarantine))
    if not is_own_rival:
        shown = _without_rivals_message(shown, WITHHELD_RIVAL)
    if was_ranked(shown):
        shown = _without_ranked_texts(shown)
    if hides_ranked_failure and shown.stage is StageName.RANKED:
        shown = _without_ranked_failure(shown)
    if any(case.hidden for stage in shown.stages for case in stage.cases):
        shown = _without_hidden_cases(shown)
    return shown


def outline(report: RunReport) -> RunReport:
    """Return the public part of a report: its job and setting, the verdict, and the level of trust."""
    return RunReport(
        job_id=report.job_id,
        mode=report.mode,
        backend=report.backend,
        harness=report.harness,
        verdict=report.verdict,
        trust=report.trust,
        comparable=report.comparable,
    )


def was_ranked(report: RunReport) -> bool:
    """Return whether a run reached its ranked stage, even if it only began it."""
    began = report.stage is StageName.RANKED or report.stage_report(StageName.RANKED) is not None
    return report.mode is Mode.LEADERBOARD and began


def without_duel(report: RunReport) -> RunReport:
    """Return the report without the result of its duel."""
    return dataclasses.replace(report, duel=None)


def _without_rivals_message(report: RunReport, instead: str) -> RunReport:
    if report.duel is None or not report.duel.rival_message:
        return report
    return dataclasses.replace(report, duel=dataclasses.replace(report.duel, rival_message=instead))


def _without_ranked_texts(report: RunReport) -> RunReport:
    """Remove printed output, and messages of a task's own harness, which may contain it."""
    is_own = report.harness is HarnessKind.OWN
    fell_there = report.stage is StageName.RANKED
    return dataclasses.replace(
        report,
        message=WITHHELD_RANKED if report.message and is_own and fell_there else report.message,
        stages=[
            _ranked(stage) if is_own and stage.name is StageName.RANKED else stage for stage in report.stages
        ],
        stdout=_output(report.stdout, WITHHELD_RANKED),
        stderr=_output(report.stderr, WITHHELD_RANKED),
        extra={},
    )


def _without_ranked_failure(report: RunReport) -> RunReport:
    stages = [_unexplained(stage) if stage.name is StageName.RANKED else stage for stage in report.stages]
    return dataclasses.replace(report, message=WITHHELD if report.message else "", stages=stages)


def _unexplained(stage: StageReport) -> StageReport:
    cases = [
        case
        if case.verdict is Verdict.ACCEPTED
        else dataclasses.replace(
            case, message=WITHHELD if case.message else "", mismatch=None, failed_on=None
        )
        for case in stage.cases
    ]
    return dataclasses.replace(stage, message=WITHHELD if stage.message else "", cases=cases)


def _ranked(stage: StageReport) -> StageReport:
    cases = [
        dataclasses.replace(case, message=WITHHELD_RANKED if case.message else "") for case in stage.cases
    ]
    return dataclasses.replace(stage, message=WITHHELD_RANKED if stage.message else "", cases=cases)


def _without_hidden_cases(report: RunReport) -> RunReport:
    failed_hidden = any(stage.name is report.stage and _failed_hidden(stage) for stage in report.stages)
    report = _without_rivals_message(report, WITHHELD)
    return dataclasses.replace(
        report,
        message=WITHHELD if report.message and failed_hidden else report.message,
        stages=[_stage(stage) for stage in report.stages],
        stdout=_output(report.stdout, WITHHELD),
        stderr=_output(report.stderr, WITHHELD),
        extra={},
        duel=None if report.duel is None else dataclasses.replace(report.duel, cases=[]),
    )


def _stage(stage: StageReport) -> StageReport:
    return dataclasses.replace(
        stage,
        message=WITHHELD if stage.message and _failed_hidden(stage) else stage.message,
        cases=[_case(case) if case.hidden else case for case in stage.cases],
    )


def _case(case: CaseResult) -> CaseResult:
    return CaseResult(index=case.index, parameters={}, hidden=True, verdict=case.verdict)


def _output(output: CapturedOutput, instead: str) -> CapturedOutput:
    return dataclasses.replace(output, text=instead) if output.text else output


def _failed_hidden(stage: StageReport) -> bool:
    """Return whether the stage's message may be about a hidden case that failed or was not finished."""
    if any(case.hidden and case.verdict is not Verdict.ACCEPTED for case in stage.cases):
        return True
    public_failed = any(not case.hidden and case.verdict is not Verdict.ACCEPTED for case in stage.cases)
    return stage.verdict is not Verdict.ACCEPTED and not public_failed
