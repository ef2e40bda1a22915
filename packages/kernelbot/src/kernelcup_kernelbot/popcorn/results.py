"""A job's report in the shapes of the existing service: ``FullResult`` and a text for people."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kernelcup.app.results import profile_files
from kernelcup.app.submissions.redaction import was_ranked
from kernelcup.domain import Run
from kernelcup.errors import NotFound
from kernelcup.http.dependencies import Db
from kernelcup.reporting.bottlenecks import explain
from kernelcup.reporting.results import JobInfo
from kernelcup.reporting.sections import Section, texts
from kernelcup_harness.protocol import (
    CaseResult,
    HarnessKind,
    Mode,
    RunReport,
    StageName,
    StageReport,
    Timing,
    Verdict,
    estimates,
)
from kernelcup_kernelbot.popcorn.failures import failure, one_line
from kernelcup_kernelbot.popcorn.forms import MODES, iso

ZIP_TIME = (1980, 1, 1, 0, 0, 0)
LARGEST_TRACE_BYTES = 64 << 20


def full_result(job: JobInfo, run: Run, mode: Mode, db: Db) -> dict[str, Any]:
    report = run.report
    return {
        "success": run.verdict is not Verdict.INTERNAL_ERROR,
        "error": failure(job) or "",
        "system": _system(report, job.device),
        "runs": _runs(run, mode, db),
    }


def report_text(job: JobInfo, submission_id: int) -> str:
    """Return a job's report as text with short lines: the client shows it verbatim."""
    failed = failure(job)
    mark = "✅ success" if failed is None else "❌ failure"
    lines = [f"**{job.device} on KernelCup {mark}**", f"> submission {submission_id}"]
    if failed is not None:
        return "\n".join([*lines, "", failed])
    found = texts(_public(job))
    told = (found.get(section, "") for section in (Section.CASES, Section.SUMMARY))
    lines += [f"> {line}" for text in told for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def _public(job: JobInfo) -> JobInfo:
    """Return a job without what its hidden cases say, to whomever it is shown."""
    if job.report is None:
        return job
    closed: dict[str, Any] = {
        "parameters": {},
        "message": "",
        "mismatch": None,
        "timing": None,
        "profile": None,
    }
    stages = [
        dataclasses.replace(
            stage,
            cases=[dataclasses.replace(case, **closed) if case.hidden else case for case in stage.cases],
        )
        for stage in job.report.stages
    ]
    return dataclasses.replace(job, report=dataclasses.replace(job.report, stages=stages, quarantine=[]))


def _runs(run: Run, mode: Mode, db: Db) -> dict[str, Any]:
    report = run.report
    found: dict[str, Any] = {}
    for stage in report.stages:
        if stage.name is StageName.PROFILE:
            for case in stage.cases:
                if not case.hidden:
                    found[f"profile.{case.index}"] = _profile_run(run, case, db)
        elif stage.name in MODES:
            found[MODES[stage.name]] = _eval_result(run, stage.verdict, _figures(stage))
    if not found:
        name = "profile.0" if mode is Mode.PROFILE else mode.value
        found[name] = _eval_result(run, run.verdict, {"check": "fail"})
    return found


def _eval_result(run: Run, verdict: Verdict, result: dict[str, Any]) -> dict[str, Any]:
    report = run.report
    # Output printed while inputs were secret may reveal them; the existing service shows it.
    printed = not was_ranked(report)
    return {
        "start": iso(run.started_at),
        "end": iso(run.finished_at),
        "compilation": None,
        "run": {
            "success": verdict is not Verdict.INTERNAL_ERROR,
            "passed": verdict is Verdict.ACCEPTED,
            "command": "",
            "stdout": report.stdout.text if printed else "",
            "stderr": report.stderr.text if printed else "",
            "exit_code": report.exit_code or 0,
            "duration": report.duration_s,
            "result": result,
        },
        "profile": None,
    }


def _profile_run(run: Run, case: CaseResult, db: Db) -> dict[str, Any]:
    text = profile_text(run.report, case)
    result = {
        # A number: the client would ignore a text and show no report.
        "benchmark-count": 1,
        "benchmark.0.spec": _spec(case),
        "benchmark.0.report": base64.b64encode(text.encode("utf-8", "replace")).decode(),
        "check": "pass" if case.verdict is Verdict.ACCEPTED else "fail",
    }
    found = _eval_result(run, case.verdict, result)
    own = run.report.harness is HarnessKind.OWN
    found["profile"] = {
        "profiler": "task's own profiler" if own else profiler(run.report),
        "trace": base64.b64encode(zipped(run.report, case, db)).decode(),
        "download_url": None,
    }
    return found


def profiler(report: RunReport) -> str:
    """Return the name of the profiler, as the existing client expects it."""
    has_counters = report.counters is not None and report.counters.kernels
    return "Nsight-Compute" if has_counters else "torch.profiler"


def profile_text(report: RunReport, case: CaseResult) -> str:
    """Return what limits the kernels of a profile, and the profiler's table."""
    told = [] if report.counters is None else [explain.text(report.counters)]
    return "\n\n".join([*told, case.profile or case.message])


def zipped(report: RunReport, case: CaseResult, db: Db) -> bytes:
    """Return the files of a profile as a zip file."""
    text = profile_text(report, case).encode("utf-8", "replace")
    files: dict[str, Iterable[bytes]] = {f"profile-{case.index}.txt": [text]}
    for each in report.counters.files if report.counters is not None else ():
        # What was deleted by retention is left out.
        with suppress(NotFound):
            files[each.name] = profile_files.parts(db, report, each.name)
    if case.trace_gz64 is not None and (trace := _unpacked(case.trace_gz64)) is not None:
        files[f"trace-{case.index}.json"] = [trace]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, parts in files.items():
            # Without a time: equal profiles are equal files.
            member = zipfile.ZipInfo(name, date_time=ZIP_TIME)
            member.external_attr, member.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            with archive.open(member, "w") as target:
                target.writelines(parts)
    return buffer.getvalue()


def _unpacked(trace: str) -> bytes | None:
    """Return a trace, None if it is invalid: it comes from a process that ran the submission."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(trace, validate=True))) as packed:
            content = packed.read(LARGEST_TRACE_BYTES + 1)
    except (binascii.Error, ValueError, OSError, EOFError, zlib.error):
        return None
    return content if len(content) <= LARGEST_TRACE_BYTES else None


def _figures(stage: StageReport) -> dict[str, Any]:
    """Return the result keys of the existing harness, in nanoseconds and as text."""
    kind = "test" if stage.name is StageName.TEST else "benchmark"
    shown = [case for case in stage.cases if not case.hidden]
    found = {f"{kind}-count": str(len(shown)), "check": _check(stage.verdict)}
    for case in shown:
        prefix = f"{kind}.{case.index}"
        found[f"{prefix}.spec"] = _spec(case)
        found[f"{prefix}.status"] = _check(case.verdict)
        if case.message:
            found[f"{prefix}.error"] = case.message
        if case.timing is not None and (case.timing.samples_ns or case.timing.reported_ns is not None):
            found |= {f"{prefix}.{name}": text for name, text in _times(case.timing).items()}
    return found


def _times(timing: Timing) -> dict[str, str]:
    """Return the measurements of a case; a task's own harness reports statistics without samples."""
    samples, told = timing.samples_ns, timing.reported
    return {
        "runs": str(len(samples) or int(told.get("runs", 0))),
        "mean": repr(timing.score_ns),
        "err": repr(estimates.error_ns(timing) or told.get("err", 0.0)),
        "best": repr(min(samples, default=told.get("best", timing.score_ns))),
        "worst": repr(max(samples, default=told.get("worst", timing.score_ns))),
    }


def _check(verdict: Verdict) -> str:
    return "pass" if verdict is Verdict.ACCEPTED else "fail"


def _spec(case: CaseResult) -> str:
    return "; ".join(f"{key}: {one_line(value)}" for key, value in case.parameters.items())


def _system(report: RunReport, device: str) -> dict[str, Any]:
    found = report.environment
    runtime = "CUDA" if found.get("cuda") else "ROCm" if found.get("hip") else ""
    return {
        "gpu": str(found.get("device") or device),
        "device_count": 1,
        "cpu": str(found.get("machine") or ""),
        "runtime": runtime,
        "platform": str(found.get("system") or ""),
        "torch": str(found.get("torch") or ""),
        # The names of our machines stay private.
        "hostname": "",
    }
