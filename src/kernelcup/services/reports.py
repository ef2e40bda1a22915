"""What of a report may be shown to whom."""

from __future__ import annotations

import dataclasses

from kernelcup_harness.protocol import CapturedOutput, CaseResult, RunReport, StageReport, Verdict

WITHHELD = "Withheld: it may tell what the hidden cases are."


def redact(report: RunReport, *, viewer_is_creator: bool) -> RunReport:
    """Return the report without what would reveal hidden cases.

    Of a hidden case only its place and verdict stay. Texts that the submission or the task's own
    harness could write while it had a hidden case in hand go as well. The secret seed stays: it
    was used for this run only, and the run is over.
    """
    if viewer_is_creator or not any(case.hidden for stage in report.stages for case in stage.cases):
        return report
    failed_hidden = any(stage.name is report.stage and _failed_hidden(stage) for stage in report.stages)
    return dataclasses.replace(
        report,
        message=WITHHELD if report.message and failed_hidden else report.message,
        stages=[_stage(stage) for stage in report.stages],
        stdout=_output(report.stdout),
        stderr=_output(report.stderr),
        extra={},
    )


def _stage(stage: StageReport) -> StageReport:
    return dataclasses.replace(
        stage,
        message=WITHHELD if stage.message and _failed_hidden(stage) else stage.message,
        cases=[_case(case) if case.hidden else case for case in stage.cases],
    )


def _case(case: CaseResult) -> CaseResult:
    return CaseResult(index=case.index, parameters={}, hidden=True, verdict=case.verdict)


def _output(output: CapturedOutput) -> CapturedOutput:
    return dataclasses.replace(output, text=WITHHELD) if output.text else output


def _failed_hidden(stage: StageReport) -> bool:
    """Tell whether the stage's message may be about a hidden case: one failed, or was never finished."""
    if any(case.hidden and case.verdict is not Verdict.ACCEPTED for case in stage.cases):
        return True
    public_failed = any(not case.hidden and case.verdict is not Verdict.ACCEPTED for case in stage.cases)
    return stage.verdict is not Verdict.ACCEPTED and not public_failed
