"""What people see: reports, standings and the live line of a run. Results come in as typed data."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kernelcup.domain import Leaderboard, RankingBy, Standing
from kernelcup.scoring import score_s
from kernelcup_harness.protocol import (
    CapturedOutput,
    CaseResult,
    Mismatch,
    RunReport,
    StageName,
    StageReport,
    Timing,
    Verdict,
)

STYLES = {Verdict.ACCEPTED: "bold green", Verdict.INTERNAL_ERROR: "bold magenta"}
MARKS = {Verdict.ACCEPTED: "✓", Verdict.INTERNAL_ERROR: "!"}
SHOWN_CASES = 12
SHOWN_OUTPUT_LINES = 20

# What to do next, for each verdict that is not "accepted".
HINTS = {
    Verdict.WRONG_ANSWER: "Compare with `kernelcup task show TASK --file reference.py`; the case above repeats it.",
    Verdict.COMPILE_ERROR: "Nothing was run. Mend what is named above; `kernelcup task template TASK` is a start.",
    Verdict.RUNTIME_ERROR: "The submission ended by itself; its own lines are in the trace above.",
    Verdict.TIME_LIMIT_EXCEEDED: "Results that were there before the limit are kept above.",
    Verdict.MEMORY_LIMIT_EXCEEDED: "Free what you allocate, or allocate it once.",
    Verdict.OUTPUT_LIMIT_EXCEEDED: "Print less; the beginning of the output is kept.",
    Verdict.REJECTED: "The submission touched the harness. If it did not mean to, ask the leaderboard's creator.",
    Verdict.INTERNAL_ERROR: "This is not the submission's fault: the task or the machine failed.",
}


def console() -> Console:
    """Return a console for standard output."""
    return Console(highlight=False, soft_wrap=True)


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict as people read it."""
    style = STYLES.get(verdict, "bold red")
    return Text(f"{MARKS.get(verdict, '✗')} {verdict.value.replace('_', ' ')}", style=style)


def duration(ns: float) -> str:
    """Return a time with a unit and four digits: ``13.42 µs``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"


def timing_text(timing: Timing | None) -> str:
    """Return time, standard error and number of samples."""
    if timing is None:
        return ""
    error = timing.error_ns
    spread = f" ± {duration(error)}" if error is not None else ""
    count = len(timing.samples_ns) or int(timing.reported.get("runs", 0))
    return f"{duration(timing.score_ns)}{spread}" + (f"  ({count} samples)" if count else "")


def parameters_text(case: CaseResult) -> str:
    """Return a case's parameters, nothing for a hidden one."""
    if case.hidden and not case.parameters:
        return "hidden"
    return ", ".join(f"{key}={value}" for key, value in case.parameters.items())


def report(out: Console, report: RunReport, ranking_by: RankingBy | None = None) -> None:
    """Print a whole report."""
    head = verdict_text(report.verdict)
    if report.stage is not None:
        head.append(f" in the {report.stage.value} stage", style="default")
    head.append(f"   {report.duration_s:.1f} s on {report.environment.get('device', '?')}", style="dim")
    out.print(head)
    for stage in report.stages:
        if stage.cases:
            out.print(stage_table(stage))
    for part in failure(report):
        out.print(part)
    for name, captured in (("stdout", report.stdout), ("stderr", report.stderr)):
        output(out, name, captured)
    score(out, report, ranking_by)
    if report.verdict in HINTS:
        out.print(Text(HINTS[report.verdict], style="dim"))


def stage_table(stage: StageReport) -> RenderableType:
    """Return the cases of a stage, the first failing ones and the timed ones first of all."""
    passed = sum(case.verdict is Verdict.ACCEPTED for case in stage.cases)
    title = f"{stage.name.value}: {passed} of {stage.planned_cases} cases passed in {stage.duration_s:.1f} s"
    if stage.name is StageName.PROFILE:
        return Text("\n\n".join(case.profile or "" for case in stage.cases))
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("case", justify="right")
    table.add_column("verdict")
    table.add_column("parameters")
    if any(case.timing for case in stage.cases):
        table.add_column("time per call", justify="right")
    bad = [case for case in stage.cases if case.verdict is not Verdict.ACCEPTED]
    chosen = stage.cases if len(stage.cases) <= SHOWN_CASES else [*bad, *stage.cases][:SHOWN_CASES]
    for case in chosen:
        row: list[RenderableType] = [
            str(case.index),
            verdict_text(case.verdict),
            escape(parameters_text(case)),
        ]
        if case.timing is not None:
            row.append(timing_text(case.timing))
        table.add_row(*row)
    if len(chosen) < len(stage.cases):
        table.caption = f"{len(stage.cases) - len(chosen)} more; --json has all"
    return table


def failure(report: RunReport) -> list[RenderableType]:
    """Return what explains a verdict: the message, and the first wrong elements."""
    if report.verdict is Verdict.ACCEPTED:
        return []
    parts: list[RenderableType] = []
    stage = report.stage_report(report.stage) if report.stage is not None else None
    bad = (
        next((case for case in stage.cases if case.verdict is not Verdict.ACCEPTED), None) if stage else None
    )
    message = bad.message if bad is not None and bad.message else report.message
    if bad is not None and bad.mismatch is not None:
        # The table below says the rest better than the checker's own lines do.
        message = message.partition("\n")[0]
    if message:
        where = f"case {bad.index} ({parameters_text(bad)}): " if bad is not None else ""
        parts.append(Text(where + message.rstrip()))
    if bad is not None and bad.mismatch is not None:
        parts.append(mismatch_table(bad.mismatch))
    return parts


def mismatch_table(mismatch: Mismatch) -> Table:
    """Return the first wrong elements with what was expected."""
    error = "" if mismatch.largest_error is None else f", largest error {mismatch.largest_error:.6g}"
    title = f"{mismatch.where}: {mismatch.wrong} of {mismatch.total} elements are wrong{error}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("position", "expected", "actual"):
        table.add_column(column, justify="right")
    for each in mismatch.first:
        table.add_row(escape(str(each.position)), escape(each.expected), escape(each.actual))
    table.caption = f"counted where {mismatch.rule}"
    table.caption_justify = "left"
    return table


def output(out: Console, name: str, captured: CapturedOutput) -> None:
    """Print what a submission wrote, cut to its last lines."""
    if not captured.total_bytes:
        return
    lines = captured.text.rstrip().splitlines()
    out.print(
        Text(f"{name} ({captured.total_bytes} bytes{', cut' if captured.truncated else ''}):", style="bold")
    )
    if len(lines) > SHOWN_OUTPUT_LINES:
        out.print(Text(f"  [{len(lines) - SHOWN_OUTPUT_LINES} lines before]", style="dim"))
    for line in lines[-SHOWN_OUTPUT_LINES:]:
        out.print(Text(f"  {line[:2000]}"))


def score(out: Console, report: RunReport, ranking_by: RankingBy | None) -> None:
    """Print the score of a ranked run, and what it is worth."""
    seconds = score_s(report, ranking_by) if ranking_by is not None else None
    if seconds is not None and ranking_by is not None:
        out.print(
            Text(
                f"score {duration(seconds * 1e9)} ({ranking_by.value} of the benchmarks, {report.trust.value})"
            )
        )
    if not report.comparable and any(stage.cases and stage.cases[0].timing for stage in report.stages):
        out.print(
            Text("Times are from an emulated device: they cannot be compared with a GPU's.", style="yellow")
        )


def standings(board: Leaderboard, device: str, places: list[Standing]) -> RenderableType:
    """Return the ranking of one (leaderboard, device)."""
    title = f"{board.name} on {device}"
    if not places:
        return Text(f"{title}: nobody is ranked yet", style="bold")
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column, side in (("rank", "right"), ("user", "left"), ("time", "right"), ("file", "left")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    table.add_column("submission", justify="right")
    table.add_column("submitted (UTC)")
    table.add_column("trust")
    for place in places:
        table.add_row(
            str(place.rank),
            escape(place.user),
            duration(place.score_s * 1e9),
            escape(place.file_name),
            f"#{place.submission_id}",
            f"{place.submitted_at:%Y-%m-%d %H:%M}",
            place.trust,
        )
    if not all(place.comparable for place in places):
        table.caption = "times from an emulated device, not comparable with a GPU's"
        table.caption_justify = "left"
    return table


class StageLines:
    """Follows a run's events: a live line on a terminal, and a line for each stage that ended."""

    def __init__(self, *, quiet: bool = False, label: str = "", out: Console | None = None) -> None:
        self._quiet = quiet
        self._label = f"{label}: " if label else ""
        self._console = out or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._done = 0
        self._planned = 0

    def __enter__(self) -> StageLines:
        if not self._quiet and self._console.is_terminal:
            self._status = self._console.status(f"{self._label}starting")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def relabel(self, label: str) -> None:
        """Follow another run from now on."""
        self._label = f"{label}: "

    def take(self, event: dict[str, Any]) -> None:
        """Show one event of the harness."""
        if self._quiet:
            return
        kind = event["event"]
        if kind == "stage":
            self._done, self._planned = 0, event["cases"]
            self._show(f"{event['stage']} (limit {event['limit_s']:g} s)")
        elif kind == "sample":
            self._show(f"{event['stage']} {self._done + 1}/{self._planned}, call {event['samples']}")
        elif kind == "case":
            self._done += 1
            self._show(f"{event['stage']} {self._done}/{self._planned}")
        elif kind == "stage_end":
            self._end(event)

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(f"{self._label}{text}")

    def _end(self, event: dict[str, Any]) -> None:
        verdict = Verdict(event["verdict"])
        line = Text(self._label)
        line.append_text(verdict_text(verdict))
        cases = f" {self._done}/{self._planned}" if self._planned else ""
        line.append(f"  {event['stage']}{cases}", style="default")
        self._console.print(line)
