"""A submission's full report in words, for its author."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterator, Mapping
from typing import Any

from kernelcup.bot.delivery.progress_message import duration
from kernelcup.bot.messages import texts
from kernelcup.bot.messages.texts import Attached, Log, Outgoing
from kernelcup.client.models import best_of_json
from kernelcup.reporting import columns, phrases
from kernelcup.reporting.bottlenecks import explain
from kernelcup.reporting.insights import Best, Insight, lessons
from kernelcup.reporting.phrases import interval_text, times_as_fast, trust_text, with_interval
from kernelcup_harness.protocol import (
    CapturedOutput,
    CaseResult,
    Counters,
    Mismatch,
    ProtocolError,
    RunReport,
    StageName,
    StageReport,
    Verdict,
    from_json,
)

Block = str | Log | Attached

STAGES = {
    StageName.IMPORT: ("Compilation successful", "Compilation failed"),
    StageName.TEST: ("Testing successful", "Testing failed"),
    StageName.BENCHMARK: ("Benchmarking successful", "Benchmarking failed"),
    StageName.PROFILE: ("Profiling successful", "Profiling failed"),
    StageName.RANKED: ("Leaderboard run successful", "Leaderboard run failed"),
}
HEADINGS = {
    StageName.TEST: "Tests",
    StageName.BENCHMARK: "Benchmarks",
    StageName.PROFILE: "Profiles",
    StageName.RANKED: "Ranked benchmarks",
}
ENVIRONMENT = (
    ("GPU", "device"),
    ("Torch", "torch"),
    ("CUDA", "cuda"),
    ("Triton", "triton"),
    ("Python", "python"),
    ("Platform", "system"),
)


def private_report(job: Mapping[str, Any], url: str) -> list[Outgoing]:
    """Return the messages with a job's full report."""
    return texts.pack(_job_blocks(job, url))


def score_text(job: Mapping[str, Any]) -> str:
    """Return a job's score, with its interval if known."""
    ns = job["score_s"] * 1e9
    told = interval_text(ns, *(None if job[end] is None else job[end] * 1e9 for end in ("low_s", "high_s")))
    return f"**{phrases.duration(ns)}**" + (f" (95 %: {told})" if told else "")


def read(job: Mapping[str, Any]) -> RunReport | None:
    """Return a job's report, None if there is none that this version can read."""
    if not job.get("report"):
        return None
    try:
        return from_json(RunReport, job["report"])
    except ProtocolError:
        return None


def _job_blocks(job: Mapping[str, Any], url: str) -> Iterator[Block]:
    device, verdict = texts.plain(job["device"]), job["verdict"]
    if job["state"] == "cancelled":
        yield f"## 🚫 {device}: cancelled"
        if job["reason"]:
            yield texts.plain(job["reason"])
        return
    mark = "✅" if verdict == Verdict.ACCEPTED else "❌"
    yield f"## {mark} {device}: {str(verdict or 'no result').replace('_', ' ')}"
    if job["remark"]:
        yield f"{'🔎' if job['state'] in ('quarantined', 'rejected') else '-#'} {texts.plain(job['remark'], 400)}"
    report = read(job)
    if report is None:
        yield f"The report is on the web: <{url}>"
        return
    yield from _summary(report)
    if job["score_s"] is not None:
        yield f"Score: {score_text(job)} ({_about_score(job, report)})"
    if not report.comparable:
        yield "-# Times are from an emulated device and cannot be compared with a GPU's."
    yield from _environment(report)
    yield from _failure(report)
    for stage in report.stages:
        yield from _stage(stage, lessons(report, stage.name, _best(job)))
    if report.counters is not None:
        yield from _counters(report.counters)
    if report.verdict is not Verdict.ACCEPTED or len(report.stages) <= 2:
        yield from _output("stderr", report.stderr)
        yield from _output("stdout", report.stdout)


def _summary(report: RunReport) -> Iterator[str]:
    for stage in report.stages:
        good, bad = STAGES.get(stage.name, (f"{stage.name} successful", f"{stage.name} failed"))
        if stage.verdict is Verdict.ACCEPTED:
            yield f"✅ {good}"
        else:
            yield f"❌ {bad} ({stage.verdict.value.replace('_', ' ')})"


def _environment(report: RunReport) -> Iterator[str]:
    found = [(label, report.environment.get(key)) for label, key in ENVIRONMENT]
    lines = [f"{label}: {texts.plain(value, 100)}" for label, value in found if value]
    if lines:
        yield "Running on:\n" + texts.bullet_list(lines)


def _failure(report: RunReport) -> Iterator[Block]:
    if report.verdict is Verdict.ACCEPTED:
        return
    stage = report.stage_report(report.stage) if report.stage is not None else None
    bad = next((c for c in stage.cases if c.verdict is not Verdict.ACCEPTED), None) if stage else None
    if bad is not None and bad.mismatch is not None:
        yield f"Case {texts.code(_parameters(bad), 300)}:"
        yield from _mismatch(bad.mismatch)
        return
    message = bad.message if bad is not None and bad.message else report.message
    if bad is not None:
        yield f"Case {texts.code(_parameters(bad), 300)}:"
    if message:
        yield Log("message.txt", message)


def _mismatch(mismatch: Mismatch) -> Iterator[Block]:
    error = "" if mismatch.largest_error is None else f", largest error {mismatch.largest_error:.6g}"
    where = texts.code(mismatch.where)
    yield f"{where}: {mismatch.wrong} of {mismatch.total} elements are wrong{mismatch.kinds}{error}. The first:"
    rows = [("position", "expected", "actual")]
    rows += [(str(each.position), each.expected, each.actual) for each in mismatch.first]
    cut = [[texts.shortened(texts.one_line(cell), 40) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cut) for column in range(3)]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cut]
    yield Log("wrong.txt", "\n".join(table))
    yield f"-# an element counts as wrong where {texts.code(mismatch.rule, 300)}"


def _about_score(job: Mapping[str, Any], report: RunReport) -> str:
    """Return the figure beside the score, how it was timed, and the comparison with the best."""
    differs = job["raw_s"] is not None and not math.isclose(job["raw_s"], job["score_s"])
    parts = [phrases.read_text(job["raw_s"], report.trust)] if differs else []
    parts.append(texts.plain(trust_text(report.trust)))
    best = _best(job)
    if best is not None and job["score_s"] and report.comparable:
        parts.append(times_as_fast(best.score_s / job["score_s"], f"the best, #{best.submission}"))
    return ", ".join(parts)


def _best(job: Mapping[str, Any]) -> Best | None:
    return None if job["best"] is None else best_of_json(job["best"])


def _stage(stage: StageReport, learned: Mapping[int, Insight]) -> Iterator[Block]:
    heading = HEADINGS.get(stage.name)
    if heading is None or not stage.cases:
        return
    passed = sum(case.verdict is Verdict.ACCEPTED for case in stage.cases)
    yield f"### {heading}: {passed} of {stage.planned_cases} passed"
    lines = [line for case in stage.cases for line in _case(case, learned.get(case.index))]
    lines += [
        f"> {places}: {texts.shortened(texts.one_line(note), 300)}"
        for note, places in columns.notes(learned.values()).items()
    ]
    yield Log(f"{stage.name.value}.txt", "\n".join(lines))
    for case in stage.cases:
        yield from _profile(case)


def _case(case: CaseResult, lesson: Insight | None) -> Iterator[str]:
    mark = "✅" if case.verdict is Verdict.ACCEPTED else "❌"
    yield f"{mark} {_parameters(case)}"
    if case.message:
        yield f"   > {texts.shortened(texts.one_line(case.message), 300)}"
    if lesson is None or case.timing is None:
        return
    ends = (lesson.low_ns, lesson.high_ns)
    yield f"   ⏱ {with_interval(lesson.time_ns, *ends)}"
    if case.timing.samples_ns:
        fastest, slowest = min(case.timing.samples_ns), max(case.timing.samples_ns)
        yield f"   ⚡ {duration(fastest * 1e-9)} 🐌 {duration(slowest * 1e-9)}  ({columns.calls(lesson)} calls)"
    if told := columns.summary(lesson):
        yield f"   📏 {told}"


def _profile(case: CaseResult) -> Iterator[Block]:
    if case.profile:
        yield Attached(f"profile-{case.index}.txt", case.profile.encode("utf-8", "replace"))
        yield Log(f"profile-{case.index}.txt", "\n".join(case.profile.splitlines()[:15]))
    if case.trace_gz64:
        try:
            yield Attached(f"profile-{case.index}.json.gz", base64.b64decode(case.trace_gz64, validate=True))
        except binascii.Error:
            return


def _counters(found: Counters) -> Iterator[Block]:
    """Yield what limits the kernels; ncu's own files are on the submission's page."""
    yield "### What limits it"
    if found.trouble:
        yield f"> No counters: {texts.shortened(texts.one_line(found.trouble), 300)}"
        return
    for each in explain.sentences(found):
        yield f"- {texts.one_line(each.text)} {texts.one_line(each.advice)}"
    yield Attached("kernels.txt", explain.text(found).encode("utf-8", "replace"))


def _parameters(case: CaseResult) -> str:
    if case.hidden and not case.parameters:
        return "hidden"
    return "; ".join(f"{key}: {value}" for key, value in case.parameters.items())


def _output(name: str, captured: CapturedOutput) -> Iterator[Block]:
    if not captured.text.strip():
        return
    cut = ", its beginning" if captured.truncated else ""
    yield f"Program {name} ({captured.total_bytes} bytes{cut}):"
    yield Log(f"{name}.txt", captured.text)
