"""A submission's full report as messages for its author."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from kernelcup.bot.messages import texts
from kernelcup.bot.messages.texts import Attached, Outgoing
from kernelcup.client.models import read, read_job
from kernelcup.domain import JobState, Score
from kernelcup.reporting import columns, report, words
from kernelcup.reporting.insights import Insight
from kernelcup.reporting.phrases import duration, with_interval
from kernelcup.reporting.report import Block, Cases, Headline, Line, Listing, Log, Tone
from kernelcup.reporting.results import JobInfo
from kernelcup_harness.protocol import CaseResult, ProtocolError, Verdict

TONES = {Tone.PLAIN: "", Tone.SOFT: "-# ", Tone.WARNING: "⚠️ "}
SHOWN_OF_LISTING = 15
"""Lines; the rest is attached."""


def private_report(job: Mapping[str, Any], url: str) -> list[Outgoing]:
    """Return the messages with a job's full report."""
    return texts.pack(_of_job(job, url))


def score_text(body: Mapping[str, Any]) -> str:
    """Return the score of a job or of a place in a ranking."""
    return f"**{report.score_text(read(Score, body))}**"


def _of_job(body: Mapping[str, Any], url: str) -> Iterator[texts.Part]:
    try:
        job = read_job(body)
    except ProtocolError:
        job = read_job({**body, "report": None})  # of another version
    head = words.verdict_text(job.verdict or "no result")
    if job.state is JobState.CANCELLED:
        yield _headline("🚫", job, "cancelled")
        yield texts.plain(job.reason)
        return
    if job.report is None:
        yield _headline("✅" if job.verdict is Verdict.ACCEPTED else "❌", job, head)
        yield f"The report is on the web: <{url}>"
        return
    for block in report.blocks(job.report, score=job.score, best=job.best):
        yield from _parts(block, job)
        if isinstance(block, Headline):
            facts = [f"{name}: {texts.plain(value, 100)}" for name, value in words.environment(job.report)]
            yield f"Running on:\n{texts.bullet_list(facts)}" if facts else ""


def _headline(mark: str, job: JobInfo, text: str) -> str:
    sign = "🔎" if job.state in (JobState.QUARANTINED, JobState.REJECTED) else "-#"
    remark = f"\n{sign} {texts.plain(job.remark, 400)}" if job.remark else ""
    return f"## {mark} {texts.plain(job.device)}: {text}{remark}"


def _parts(block: Block, job: JobInfo) -> Iterator[texts.Part]:
    match block:
        case Headline():
            yield _headline("✅" if block.verdict is Verdict.ACCEPTED else "❌", job, block.text)
        case Line():
            yield f"{TONES[block.tone]}{texts.plain(block.text)}"
        case Log():
            if block.text.strip():
                yield f"{block.title}:" if block.title else ""
                yield texts.Log(block.name, block.text)
        case Listing():
            yield f"### {texts.plain(block.title)}"
            yield from _attached(block)
        case Cases():
            yield f"### {block.title}"
            lines = [
                line for case in block.stage.cases for line in _case(case, block.insights.get(case.index))
            ]
            notes = columns.notes(block.insights.values()).items()
            lines += [f"> {places}: {_short(note)}" for note, places in notes]
            yield texts.Log(f"{block.stage.name.value}.txt", "\n".join(lines))
        case _:
            rows = [[_short(cell, 40) for cell in row] for row in (block.columns, *block.rows)]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
            yield texts.plain(block.title)
            yield texts.Log(block.name, "\n".join(lines))
            yield f"-# {texts.plain(block.caption, 300)}"


def _attached(listing: Listing) -> Iterator[texts.Part]:
    if listing.text:
        yield Attached(listing.name, listing.text.encode("utf-8", "replace"))
        yield texts.Log(listing.name, "\n".join(listing.text.splitlines()[:SHOWN_OF_LISTING]))
    if listing.trace_gz64:
        try:
            trace = base64.b64decode(listing.trace_gz64, validate=True)
        except binascii.Error:
            return
        yield Attached(f"{listing.name.removesuffix('.txt')}.json.gz", trace)


def _case(case: CaseResult, lesson: Insight | None) -> Iterator[str]:
    yield f"{'✅' if case.verdict is Verdict.ACCEPTED else '❌'} {report.parameters_text(case)}"
    if case.message:
        yield f"   > {_short(case.message)}"
    if lesson is None or case.timing is None:
        return
    yield f"   ⏱ {with_interval(lesson.time_ns, lesson.low_ns, lesson.high_ns)}"
    if samples := case.timing.samples_ns:
        yield f"   ⚡ {duration(min(samples))} 🐌 {duration(max(samples))}  ({columns.calls(lesson)} calls)"
    if summary := columns.summary(lesson):
        yield f"   📏 {summary}"


def _short(text: str, limit: int = 300) -> str:
    return texts.shortened(texts.one_line(text), limit)
