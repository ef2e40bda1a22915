"""Reports, standings and the live line of a run, as text for people. Results come in as typed data.

Every text that a submission, a task or a person wrote goes through ``plain`` and into a ``Text``,
never into a string that is parsed as markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kernelcup.cli.show.plain_text import plain, shortened
from kernelcup.cli.show.ranking import seconds_ns
from kernelcup.cli.show.tables import cell, least_width, new_table, print_table
from kernelcup.cli.show.terminal import PlainConsole, raw
from kernelcup.domain import RankingBy, Score
from kernelcup.reporting import columns as lesson_text
from kernelcup.reporting.bottlenecks import explain
from kernelcup.reporting.insights import Best, Insight, lessons
from kernelcup.reporting.made_of import ran_line
from kernelcup.reporting.phrases import (
    binaries_text,
    duel_sentence,
    duration,
    interval_text,
    read_text,
    times_as_fast,
)
from kernelcup.reporting.phrases import trust_text as trust_level_text
from kernelcup.scoring import score as score_of
from kernelcup_harness.protocol import (
    Backend,
    CapturedOutput,
    CaseResult,
    Mismatch,
    RunReport,
    StageName,
    StageReport,
    Verdict,
)

STYLES = {Verdict.ACCEPTED: "bold green", Verdict.INTERNAL_ERROR: "bold magenta"}
MARKS = {Verdict.ACCEPTED: "✓", Verdict.INTERNAL_ERROR: "!"}
SHOWN_CASES = 12
SHOWN_OUTPUT_LINES = 20
SHOWN_MESSAGE_LINES = 40
WAITS, LOOKED_AT, UNRANKED = "waits for a person", "was reviewed by a person", "would not rank"

# What to do next, for each verdict that is not "accepted"; {about} stands for the command that shows the
# task.
HINTS = {
    Verdict.WRONG_ANSWER: "For what is expected, see: {about}",
    Verdict.COMPILE_ERROR: "No call was made: fix the error named above.",
    Verdict.RUNTIME_ERROR: "The error is in the submission; a traceback names its lines.",
    Verdict.TIME_LIMIT_EXCEEDED: "The limits: {about}",
    Verdict.MEMORY_LIMIT_EXCEEDED: "Free memory after use, or allocate it once.",
    Verdict.OUTPUT_LIMIT_EXCEEDED: "Print or return less; only the beginning of the output is kept.",
    Verdict.REJECTED: "The submission interfered with the judge, or its times cannot be right. If you do not know "
    "why, ask the leaderboard's creator. The judge's code: {about} --harness",
    Verdict.INTERNAL_ERROR: "This is not the submission's fault: the task or the machine failed. "
    "Look with: kernelcup task check TASK, kernelcup doctor",
}
EARLIER = "Results from before the limit are above. "
WANTS_A_GPU = (
    "It needs a GPU, but ran on the CPU. On the CPU, kernelcup run --device emulated checks "
    "answers; its times do not count."
)
# PyTorch's messages without a CUDA device: from a CPU-only build, and without a driver.
NO_GPU = (
    "without ATen_cuda library",
    "not compiled with CUDA",
    "no NVIDIA driver",
    "No CUDA GPUs are available",
)


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict as text for people."""
    style = STYLES.get(verdict, "bold red")
    return Text(f"{MARKS.get(verdict, '✗')} {verdict.value.replace('_', ' ')}", style=style)


def parameters_text(case: CaseResult) -> str:
    """Return a case's parameters, nothing for a hidden one."""
    if case.hidden and not case.parameters:
        return "hidden"
    return ", ".join(f"{key}={value}" for key, value in case.parameters.items())


def report(
    out: Console,
    report: RunReport,
    ranking_by: RankingBy | None = None,
    *,
    about: str = "kernelcup task show TASK",
    best: Best | None = None,
    stored: Score | None = None,
    held: str = WAITS,
) -> None:
    """Print a whole report.

    Args:
        out: The console.
        report: The report.
        ranking_by: How a score is computed from times; None for a single call, which has no score.
        about: The command that shows the task.
        best: The current first place, if known.
        stored: The score stored with the result; the report may lack some of the data behind it.
        held: The consequence of the measurement's findings.
    """
    out.print(headline(report))
    for each in report.stages:
        stage(out, each, lessons(report, each.name, best))
    if report.counters is not None:
        raw(out, plain(explain.text(report.counters)) + "\n")
    failure(out, report)
    for name, captured in (("stdout", report.stdout), ("stderr", report.stderr)):
        output(out, name, captured)
    made = score_of(report, ranking_by) if ranking_by is not None else None
    if stored is not None and (made is None or not math.isclose(made.score_s, stored.score_s)):
        ranking_by = None  # stored under another rule, or computed from data that the report lacks
    score(out, report, stored or made, ranking_by, best)
    if report.ran:
        out.print(Text(plain(ran_line(report.ran)), style="dim"))
    for finding in report.quarantine:
        out.print(Text(plain(f"{held}: {finding.text}"), style="yellow"))
    if report.verdict in HINTS:
        out.print(Text(hint(report).format(about=about), style="dim"))


def hint(report: RunReport) -> str:
    """Return the next step for a report that was not accepted; ``{about}`` is left as it is."""
    if wants_a_gpu(report):
        return WANTS_A_GPU
    timed_out = report.verdict is Verdict.TIME_LIMIT_EXCEEDED
    before = EARLIER if timed_out and any(stage.cases for stage in report.stages) else ""
    return before + HINTS[report.verdict]


def wants_a_gpu(report: RunReport) -> bool:
    """Return whether the submission failed on the CPU because there is no GPU."""
    return report.backend is Backend.CPU and any(mark in report.message for mark in NO_GPU)


def headline(report: RunReport) -> Text:
    """Return verdict, stage, duration and device."""
    head = verdict_text(report.verdict)
    if report.stage is not None:
        head.append(f" in the {report.stage.value} stage", style="default")
    device = report.environment.get("device")
    where = f", {plain(str(device))}" if device else ""
    head.append(f"   {report.duration_s:.1f} s{where}", style="dim")
    return head


def stage(out: Console, stage: StageReport, learned: Mapping[int, Insight]) -> None:
    """Print a stage: its cases, or its profile."""
    failed = any(case.verdict is not Verdict.ACCEPTED for case in stage.cases)
    if stage.cases and (failed or stage.name is not StageName.PROFILE):
        cases(out, stage, learned)
    for case in stage.cases:
        if case.profile:
            out.print(Text(f"profile of case {case.index} ({plain(parameters_text(case))})", style="bold"))
            raw(out, plain(case.profile.rstrip()) + "\n")


def cases(out: Console, stage: StageReport, learned: Mapping[int, Insight]) -> None:
    """Print the cases of a stage; if there are many, failed ones take precedence."""
    passed = sum(case.verdict is Verdict.ACCEPTED for case in stage.cases)
    title = f"{stage.name.value}: {passed} of {stage.planned_cases} cases passed in {stage.duration_s:.1f} s"
    chosen = shown_cases(stage.cases)
    left_out = len(stage.cases) - len(chosen)
    timed = [learned[case.index] for case in chosen if case.index in learned]
    columns = lesson_text.columns(timed)
    table = table_of_cases(chosen, learned, columns)
    narrow = columns and not fits(out, table)
    if narrow:
        # A column that is cut off would mislead.
        table = table_of_cases(chosen, learned, {lesson_text.TIME: columns[lesson_text.TIME]})
    print_table(out, title, table, f"{left_out} more; --json has all" if left_out else "")
    for lesson in timed if narrow else ():
        if told := lesson_text.summary(lesson):
            raw(out, plain(f"case {lesson.index}: {told}"))
    known = [learned[case.index] for case in stage.cases if case.index in learned]
    for note, places in lesson_text.notes(known).items():
        out.print(Text(plain(f"{places}: {note}"), style="yellow"))


def table_of_cases(
    cases: Sequence[CaseResult], learned: Mapping[int, Insight], columns: Mapping[str, lesson_text.Column]
) -> Table:
    """Return a table of cases, with these columns for the timed ones."""
    table = new_table(
        "case",
        "verdict",
        "parameters",
        *columns,
        right=("case", *columns),
        whole=("case", "verdict", *columns),
    )
    for case in cases:
        row: list[RenderableType] = [str(case.index), verdict_text(case.verdict), cell(parameters_text(case))]
        lesson = learned.get(case.index)
        table.add_row(*row, *(read(lesson) if lesson is not None else "" for read in columns.values()))
    return table


def fits(out: Console, table: Table) -> bool:
    """Return whether a table fits the console without breaking a word."""
    return least_width(out, table) <= out.width


def shown_cases(cases: Sequence[CaseResult]) -> list[CaseResult]:
    """Return all cases if they are few, else the failed ones and the first of the others, in order."""
    by_need = sorted(cases, key=lambda case: (case.verdict is Verdict.ACCEPTED, case.index))
    return sorted(by_need[:SHOWN_CASES], key=lambda case: case.index)


def failure(out: Console, report: RunReport) -> None:
    """Print a failure's message and its first wrong elements."""
    if report.verdict is Verdict.ACCEPTED:
        return
    stage = report.stage_report(report.stage) if report.stage is not None else None
    cases = stage.cases if stage is not None else []
    bad = next((case for case in cases if case.verdict is not Verdict.ACCEPTED), None)
    mismatch = bad.mismatch if bad is not None else None
    message = bad.message if bad is not None and bad.message else report.message
    if mismatch is not None:
        # The table below replaces the checker's own lines.
        message = "" if message.startswith(f"{mismatch.where}: ") else message.partition("\n")[0]
    where = f"case {bad.index} ({parameters_text(bad)}): " if bad is not None else ""
    if message or (where and mismatch is not None):
        raw(out, shortened(where + message, first=10, last=SHOWN_MESSAGE_LINES - 10))
    if mismatch is not None:
        differences(out, mismatch)


def differences(out: Console, mismatch: Mismatch) -> None:
    """Print the first wrong elements with the expected values."""
    error = "" if mismatch.largest_error is None else f", largest error {mismatch.largest_error:.6g}"
    title = (
        f"{mismatch.where}: {mismatch.wrong} of {mismatch.total} elements are wrong{mismatch.kinds}{error}"
    )
    columns = ("position", "expected", "actual")
    table = new_table(*columns, right=columns)
    for each in mismatch.first:
        table.add_row(cell(each.position), cell(each.expected), cell(each.actual))
    print_table(out, title, table, f"an element counts as wrong where {mismatch.rule}")


def output(out: Console, name: str, captured: CapturedOutput) -> None:
    """Print a submission's output, cut to its last lines."""
    if not captured.total_bytes:
        return
    if not captured.text.strip():
        out.print(Text(f"{name}: {captured.total_bytes} bytes, no text", style="bold"))
        return
    kept = ", shown to where the kept part ends" if captured.truncated else ""
    out.print(Text(f"{name} ({captured.total_bytes} bytes{kept}):", style="bold"))
    for line in shortened(captured.text, first=0, last=SHOWN_OUTPUT_LINES).split("\n"):
        raw(out, f"  {line}")


def score(
    out: Console,
    report: RunReport,
    found: Score | None,
    ranking_by: RankingBy | None = None,
    best: Best | None = None,
) -> None:
    """Print a ranked run's score, its interval, and its comparison with the best."""
    if found is not None:
        out.print(Text(plain(score_line(found, report, ranking_by))))
        if best is not None and best.score_s > 0 and report.comparable:
            out.print(Text(times_as_fast(best.score_s / found.score_s, f"the best, #{best.submission}")))
    if report.duel is not None:
        out.print(Text(plain(duel_sentence(report.duel, "The submission", "its rival"))))
    if told := binaries_text(report.binaries, "the submission", "its rival"):
        out.print(Text(plain(told)))
    if not report.comparable and any(case.timing for stage in report.stages for case in stage.cases):
        out.print(
            Text("Times are from an emulated device: they cannot be compared with a GPU's.", style="yellow")
        )


def score_line(found: Score, report: RunReport, ranking_by: RankingBy | None) -> str:
    """Return the score with its interval, the figure beside it, and how it was timed."""
    ns = seconds_ns(found)
    differs = found.raw_s is not None and not math.isclose(found.raw_s, found.score_s)
    raw = f"{read_text(found.raw_s, report.trust)}, " if found.raw_s is not None and differs else ""
    told = duration(found.score_s * 1e9)
    interval = interval_text(*ns)
    known = f", 95 % interval {interval}" if interval else ""
    how = f"{ranking_by.value} of the benchmarks, " if ranking_by is not None else ""
    return f"score {told}{known} ({how}{raw}{trust_level_text(report.trust)})"


class StageLines:
    """Follows a run's events: a live line on a terminal, and a line for each finished stage."""

    def __init__(self, *, quiet: bool = False, label: str = "", out: Console | None = None) -> None:
        self._quiet = quiet
        self._label = f"{plain(label)}: " if label else ""
        self._console = out or PlainConsole(stderr=True, highlight=False)
        self._status: Status | None = None
        self._done: dict[str, int] = {}
        self._planned: dict[str, int] = {}
        """By label: concurrent runs have one entry each."""

    def __enter__(self) -> StageLines:
        if not self._quiet and self._console.is_terminal:
            self._status = self._console.status(self._line("starting"))
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the live line while other output is written."""
        if self._status is not None:
            self._status.stop()
        try:
            yield
        finally:
            if self._status is not None:
                self._status.start()

    def relabel(self, label: str) -> None:
        """Follow the run with this label from now on."""
        self._label = f"{plain(label)}: "

    def take(self, event: dict[str, Any]) -> None:
        """Show one event of the harness."""
        if self._quiet:
            return
        kind = event["event"]
        done, planned = self._done.get(self._label, 0), self._planned.get(self._label, 0)
        if kind == "stage":
            self._done[self._label], self._planned[self._label] = event.get("done", 0), event["cases"]
            self.show(f"{event['stage']} (limit {event['limit_s']:g} s)")
        elif kind == "sample":
            self.show(f"{event['stage']} {done + 1}/{planned}, call {event['samples']}")
        elif kind == "case":
            self._done[self._label] = done + 1
            self.show(f"{event['stage']} {done + 1}/{planned}")
        elif kind == "stage_end":
            # A case that was called has not necessarily passed.
            planned = planned if event["verdict"] == Verdict.ACCEPTED else 0
            self.end_stage(event["stage"], Verdict(event["verdict"]), done, planned)

    def end_stage(self, stage: str, verdict: Verdict, done: int, planned: int) -> None:
        """Print a line for a finished stage."""
        if self._quiet:
            return
        line = Text(self._label)
        line.append_text(verdict_text(verdict))
        line.append(plain(f"  {stage}{f' {done}/{planned}' if planned else ''}"), style="default")
        self._console.print(line)

    def say(self, text: str) -> None:
        """Print a line that is not about the run."""
        if not self._quiet:
            self._console.print(Text(plain(text)))

    def _line(self, text: str) -> Text:
        return Text(f"{self._label}{text}", no_wrap=True, overflow="ellipsis")

    def show(self, text: str) -> None:
        """Show the run's progress on a terminal."""
        if self._status is not None:
            self._status.update(self._line(text))
