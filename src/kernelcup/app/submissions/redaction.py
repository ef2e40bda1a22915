"""Runs as a viewer may see them: redacted, or veiled until a freeze or a deadline is over."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.queue.queries import comparisons
from kernelcup.app.results.queries import frozen_standings, ruling
from kernelcup.app.submissions.queries import submissions
from kernelcup.app.submissions.review_evidence import for_author
from kernelcup.domain import (
    Actor,
    DuelOutcome,
    Job,
    JobState,
    Leaderboard,
    Role,
    Run,
)
from kernelcup.engine import Session
from kernelcup_harness.protocol import (
    BinaryUse,
    CapturedOutput,
    CaseResult,
    DuelResult,
    DuelVerdict,
    HarnessKind,
    Mode,
    RunReport,
    StageName,
    StageReport,
    Timing,
    trimmed_mean,
)

WITHHELD = "Withheld: it may reveal the hidden cases."
WITHHELD_RANKED = "Withheld: it was written while the submission was ranked."
DIGITS = 4
"""Significant digits of times, as on the board."""
EVIDENT = frozenset(
    {"device", "driver", "cuda", "torch", "triton", "python", "cores", "environment", "isolation"}
)
"""Facts of a report's environment for everybody."""
WITHHELD_RIVAL = "withheld, for it may reveal another user's submission"
NOT_IN_TURNS = "one of the two cannot be"
"""Said in place of why two were not measured in turns."""
NOT_REPLAYABLE = "it cannot be replayed in this job"


def redact(
    report: RunReport,
    *,
    sees_all: bool,
    done: bool = True,
    is_own_rival: bool = False,
) -> RunReport:
    """Return the report without the parts that the submission's author may not see.

    A hidden case keeps only its index and the verdict with its reason. What the submission could choose once it had
    met a hidden case is removed from public cases as well: texts, lines, wrong elements and raw samples; their times
    are rounded, and durations to seconds. So are texts that were written while it was ranked. The secret seed is shown
    once the job is done: it was used for this run only, and the run is over.

    Args:
        report: The full report.
        sees_all: Whether the viewer manages the leaderboard.
        done: Whether the job has ended and waits for no review.
        is_own_rival: Whether the viewer also submitted the rival that it was measured in turns with.
    """
    if sees_all:
        return report
    shown = report if done else dataclasses.replace(report, secret_seed="")
    if shown.quarantine:
        shown = dataclasses.replace(shown, quarantine=for_author(shown.quarantine))
    if not is_own_rival:
        held = shown.duel is None or shown.duel.verdict != DuelVerdict.NOT_HELD
        shown = _without_rivals_message(shown, WITHHELD_RIVAL if held else NOT_IN_TURNS)
        if shown.binaries:
            shown = dataclasses.replace(shown, binaries=_without_rivals_reason(shown.binaries))
    if was_ranked(shown):
        shown = _without_ranked_texts(shown)
    if any(stage.met_hidden or any(map(_met_hidden, stage.cases)) for stage in shown.stages):
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


def evidence(report: RunReport) -> RunReport:
    """Return what everybody may see of a result that ranks: how each public case was checked and timed, and where.

    It has no text that the submission could write, and no time that only its own clock has measured.
    """
    shown = redact(report, sees_all=False)
    environment = {key: value for key, value in shown.environment.items() if key in EVIDENT}
    sandbox = shown.environment.get("sandbox")
    if isinstance(sandbox, dict) and "kind" in sandbox:
        environment["sandbox"] = {"kind": sandbox["kind"]}
    return dataclasses.replace(
        outline(shown),
        stages=[
            dataclasses.replace(stage, message="", cases=[_evident(case) for case in stage.cases])
            for stage in shown.stages
        ],
        calibration=shown.calibration,
        environment=environment,
    )


def _evident(case: CaseResult) -> CaseResult:
    return CaseResult(
        index=case.index,
        parameters=case.parameters,
        hidden=case.hidden,
        verdict=case.verdict,
        timing=None if case.timing is None else dataclasses.replace(case.timing, own_ns=[]),
        checks=case.checks,
        prepare_s=case.prepare_s,
        work=case.work,
        floor_ns=case.floor_ns,
        reference_ns=case.reference_ns,
        baseline_ns=case.baseline_ns,
        weight=case.weight,
    )


def was_ranked(report: RunReport) -> bool:
    """Return whether a run reached its ranked stage, even if it only began it."""
    began = report.stage is StageName.RANKED or report.stage_report(StageName.RANKED) is not None
    return report.mode is Mode.LEADERBOARD and began


def without_duel(report: RunReport) -> RunReport:
    """Return the report without the result of its duel."""
    own = [each for each in report.binaries if each.side != "rival"]
    return dataclasses.replace(report, duel=None, binaries=own)


def _without_rivals_message(report: RunReport, instead: str) -> RunReport:
    if report.duel is None or not report.duel.rival_message:
        return report
    return dataclasses.replace(report, duel=dataclasses.replace(report.duel, rival_message=instead))


def _without_rivals_reason(uses: list[BinaryUse]) -> list[BinaryUse]:
    """Return what became of kept binaries, without why the rival's could not be replayed."""
    return [
        dataclasses.replace(each, why=NOT_REPLAYABLE) if each.why and each.side == "rival" else each
        for each in uses
    ]


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


def _ranked(stage: StageReport) -> StageReport:
    cases = [
        dataclasses.replace(case, message=WITHHELD_RANKED if case.message else "", judge=None)
        for case in stage.cases
    ]
    return dataclasses.replace(stage, message=WITHHELD_RANKED if stage.message else "", cases=cases)


def _met_hidden(case: CaseResult) -> bool:
    return case.hidden or case.met_hidden


def _without_hidden_cases(report: RunReport) -> RunReport:
    if any(case.hidden and not case.met_hidden for stage in report.stages for case in stage.cases):
        report = _of_one_process(report)
    hides = any(stage.name is report.stage and stage.met_hidden for stage in report.stages)
    report = _without_rivals_message(report, WITHHELD)
    return dataclasses.replace(
        report,
        message=WITHHELD if report.message and hides else report.message,
        stages=[_stage(stage) for stage in report.stages],
        extra={},
        duel=None if report.duel is None else _rounded_duel(report.duel),
        duration_s=float(round(report.duration_s)),
        phases={name: float(round(seconds)) for name, seconds in report.phases.items()},
        environment=_without_rank_times(report.environment),
    )


def _of_one_process(report: RunReport) -> RunReport:
    """Return the report of a task's own harness of 0.1.0, whose one process met all cases, as it would say it today."""
    stages = [
        dataclasses.replace(
            stage, met_hidden=True, cases=[dataclasses.replace(case, met_hidden=True) for case in stage.cases]
        )
        for stage in report.stages
    ]
    nothing = CapturedOutput(text=WITHHELD)
    return dataclasses.replace(report, stages=stages, stdout=nothing, stderr=nothing)


def _without_rank_times(environment: Mapping[str, Any]) -> dict[str, Any]:
    ranks = environment.get("ranks")
    if not isinstance(ranks, Mapping):
        return dict(environment)
    return {**environment, "ranks": {name: value for name, value in ranks.items() if name != "cases"}}


def _stage(stage: StageReport) -> StageReport:
    return dataclasses.replace(
        stage,
        message=WITHHELD if stage.message and stage.met_hidden else stage.message,
        cases=[_case(case) if _met_hidden(case) else case for case in stage.cases],
        duration_s=float(round(stage.duration_s)),
    )


def _case(case: CaseResult) -> CaseResult:
    """Return the verdict of a case with its reason; of a public one its rounded times, too."""
    shown = CaseResult(
        index=case.index,
        parameters={} if case.hidden else case.parameters,
        hidden=case.hidden,
        verdict=case.verdict,
        reason=case.reason,
        met_hidden=True,
    )
    if case.hidden:
        return shown
    return dataclasses.replace(
        shown,
        timing=None if case.timing is None else _rounded_timing(case.timing),
        work=case.work,
        floor_ns=case.floor_ns,
        reference_ns=None if case.reference_ns is None else _rounded(case.reference_ns),
        baseline_ns=[_rounded(trimmed_mean(case.baseline_ns))] if case.baseline_ns else [],
        weight=case.weight,
    )


def _rounded_timing(timing: Timing) -> Timing:
    """Return a time as a leaderboard shows it, without samples and without figures in its findings."""
    time_ns, audit = _rounded(timing.score_ns), timing.audit
    if audit is not None:
        audit = dataclasses.replace(audit, score_ns=time_ns, findings=for_author(audit.findings))
    return Timing(samples_ns=[time_ns], overhead_ns=timing.overhead_ns, audit=audit)


def _rounded_duel(duel: DuelResult) -> DuelResult:
    ratio, low, high = map(_rounded, (duel.ratio, duel.low, duel.high))
    return dataclasses.replace(duel, ratios=[], cases=[], pairs=[], ratio=ratio, low=low, high=high)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _output(output: CapturedOutput, instead: str) -> CapturedOutput:
    return dataclasses.replace(output, text=instead) if output.text else output


def redacted_run(
    session: Session, board: Leaderboard, job: Job, run: Run | None, viewer: Actor
) -> Run | None:
    """Return a run without what this viewer may not see of it."""
    if run is None:
        return None
    report = redact(
        run.report,
        sees_all=access.inspects_board(viewer, board),
        done=job.state is JobState.DONE,
        is_own_rival=_is_own_rival(session, job, run, viewer),
    )
    shown = dataclasses.replace(run, report=report, machine=machine_of(run, viewer))
    return veiled_run(session, board, job, shown, viewer)


def machine_of(run: Run, viewer: Actor) -> str:
    """Return the host that judged, for admins; empty for others."""
    return run.machine if viewer.role is Role.ADMIN else ""


def with_evidence(run: Run) -> Run:
    """Return a run with the part of its report that everybody may see."""
    shown = evidence(run.report) if run.score_s is not None else outline(run.report)
    return dataclasses.replace(run, report=shown, machine="")


def _is_own_rival(session: Session, job: Job, run: Run, viewer: Actor) -> bool:
    """Return whether the rival of a comparison also belongs to the viewer."""
    pair = comparisons.find(session, job.id) if run.report.duel is not None else None
    rival = None if pair is None or pair.second_id is None else submissions.find(session, pair.second_id)
    return rival is not None and rival.user_id == viewer.user_id


def veiled_run(session: Session, board: Leaderboard, job: Job, run: Run, viewer: Actor) -> Run:
    """Return the viewer's own run without anything that reveals the leader after the leaderboard froze."""
    since = visibility.hidden_since(board, viewer)
    if job.mode is not Mode.LEADERBOARD or since is None:
        return run
    if ruling.is_shown(run.finished_at, since):
        if not (run.duel.is_behind and frozen_standings.is_kept(session, board.id)):
            return run
        # The rival that it was placed behind may have been judged again since.
        return dataclasses.replace(run, rank_s=frozen_standings.ranked_s(session, run.id))
    report = without_duel(run.report)
    return dataclasses.replace(run, duel=DuelOutcome.NONE, rival=None, rank_s=None, report=report)
