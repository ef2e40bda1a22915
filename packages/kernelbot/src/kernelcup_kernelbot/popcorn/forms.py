"""Submissions in the shapes of the existing client."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kernelcup.domain import ASIDE, JobState, Run
from kernelcup.reporting.results import JobInfo, SubmissionInfo
from kernelcup_harness.protocol import Mode, StageName, Verdict
from kernelcup_kernelbot.popcorn.failures import summary

SERVICE = "KernelCup"

MODES = {
    StageName.TEST: "test",
    StageName.BENCHMARK: "benchmark",
    StageName.RANKED: "leaderboard",
    StageName.PROFILE: "profile",
}

FAILED = frozenset({"failed", "timed_out"})


def of_list(view: SubmissionInfo) -> dict[str, Any]:
    """Show a submission as a line of a list: one run for each device, so that none is named twice."""
    return {**_facts(view), "runs": [_listed(each) for each in view.jobs]}


def of_submission(view: SubmissionInfo, code: str) -> dict[str, Any]:
    """Show a submission with all fields that the client's loop and output need."""
    return {
        **_facts(view),
        "leaderboard_id": view.leaderboard_id,
        # Ours are names: browsers change numbers above 2**53.
        "user_id": view.user,
        "user_name": view.user,
        "mode": view.mode.value,
        "code": code,
        "runs": [run for each in view.jobs for run in runs_of(each, view.mode)],
        "job": job_of(view),
        "runner_queue": queue_of(view),
    }


def job_of(view: SubmissionInfo) -> dict[str, Any]:
    """Return the status word that ends the client's loop, and the reason of a failure.

    A submission with several devices, made elsewhere, is over when all its jobs are.
    """
    if not view.ended:
        running = any(each.state is JobState.RUNNING for each in view.jobs)
        return {"status": "running" if running else "pending", "error": None}
    error = summary(view.jobs)
    if not error:
        return {"status": "succeeded", "error": None}
    verdicts = {each.verdict for each in view.jobs if each.verdict is not None}
    timed_out = verdicts <= {Verdict.ACCEPTED, Verdict.TIME_LIMIT_EXCEEDED} and len(verdicts) > 0
    late = timed_out and Verdict.TIME_LIMIT_EXCEEDED in verdicts
    return {"status": "timed_out" if late else "failed", "error": error}


def queue_of(view: SubmissionInfo) -> dict[str, Any] | None:
    """Return the queue of the first waiting job: the jobs up to and including that job.

    The client prints it as "RUNNER GPU queue: N queued jobs", also when its place is meant.
    """
    for each in view.jobs:
        found = each.waiting
        if found is not None and found.position is not None:
            return {
                "runner": SERVICE,
                "gpu": each.device,
                "queued_jobs": found.position,
                "message": found.reason,
                "starts_in_s": found.starts_in_s,
            }
    return None


def runs_of(job: JobInfo, mode: Mode) -> list[dict[str, Any]]:
    """Return a job's stages as runs.

    The existing service judges a ranked submission twice, in public and in secret. Ours does it once:
    its ranked stage runs on inputs that are not known beforehand, and its result is the score that
    everyone sees. So it is one run that is not secret, which the client prints as "Geomean score
    (public)"; a secret run beside it would repeat the same number. None of them contains printed output.
    """
    run = job.counted
    if run is None:
        return []
    score = _score(job)
    found = [
        _run(job.device, run, MODES[stage.name], passed=stage.verdict is Verdict.ACCEPTED, score=score)
        for stage in run.report.stages
        if stage.name in MODES
    ]
    if found:
        return found
    # It failed at its import, or no machine could judge it.
    return [_run(job.device, run, mode.value, passed=run.verdict is Verdict.ACCEPTED, score=score)]


def iso(moment: datetime | None) -> str | None:
    """Return a time as text, with its zone."""
    return None if moment is None else moment.isoformat()


def _facts(view: SubmissionInfo) -> dict[str, Any]:
    return {
        "id": view.id,
        "leaderboard_name": view.leaderboard,
        "file_name": view.file_name,
        "submission_time": iso(view.created_at),
        "done": view.ended,
    }


def _listed(job: JobInfo) -> dict[str, Any]:
    return {
        "gpu_type": job.device,
        "score": _score(job),
        "passed": job.verdict is Verdict.ACCEPTED,
    }


def _score(job: JobInfo) -> float | None:
    return None if job.score is None or job.ruling in ASIDE else job.score.score_s


def _run(device: str, run: Run, mode: str, *, passed: bool, score: float | None) -> dict[str, Any]:
    ranked = mode == Mode.LEADERBOARD.value
    return {
        "start_time": iso(run.started_at),
        "end_time": iso(run.finished_at),
        "mode": mode,
        "secret": False,
        "runner": device,
        # A number: the client accepts a number or a text, its older versions only a number.
        "score": score if ranked and passed else None,
        "passed": passed,
    }
