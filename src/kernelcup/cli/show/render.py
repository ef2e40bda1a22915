"""Reports, standings and the live line of a run, as text for people. Results come in as typed data.

Every text that a submission, a task or a person wrote goes through ``plain`` and into a ``Text``,
never into a string that is parsed as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kernelcup.cli.show.output import plain, shortened
from kernelcup.cli.show.tables import cell, least_width, new_table, print_table
from kernelcup.cli.show.terminal import PlainConsole, raw
from kernelcup.reporting import columns as lesson_text
from kernelcup.reporting.report import Block, Cases, Headline, Line, Listing, Log, Tone, parameters_text
from kernelcup.reporting.words import next_step
from kernelcup.reporting.words import verdict_text as verdict_words
from kernelcup_harness.protocol import CaseResult, Mode, RunReport, Verdict

STYLES = {Verdict.ACCEPTED: "bold green", Verdict.INTERNAL_ERROR: "bold magenta"}
MARKS = {Verdict.ACCEPTED: "✓", Verdict.INTERNAL_ERROR: "!"}
TONES = {Tone.PLAIN: "", Tone.SOFT: "dim", Tone.WARNING: "yellow"}
SHOWN_CASES = 12


def verdict_text(verdict: Verdict, words: str = "") -> Text:
    """Return a verdict as text for people, in these words if given."""
    mark = MARKS.get(verdict, "✗")
    return Text(f"{mark} {words or verdict_words(verdict)}", style=STYLES.get(verdict, "bold red"))


def show(out: Console, blocks: Iterable[Block]) -> None:
    """Print blocks of a report."""
    for block in blocks:
        match block:
            case Headline():
                head = verdict_text(block.verdict, block.text)
                out.print(head.append(f"   {plain(block.about)}", style="dim"))
            case Line():
                out.print(Text(plain(block.text), style=TONES[block.tone]))
            case Log():
                _log(out, block)
            case Listing():
                if block.text:
                    out.print(Text(plain(block.title), style="bold"))
                    raw(out, plain(block.text.rstrip()) + "\n")
            case Cases():
                cases(out, block)
            case _:
                table = new_table(*block.columns, right=block.columns)
                for row in block.rows:
                    table.add_row(*map(cell, row))
                print_table(out, block.title, table, block.caption)


def show_next(out: Console, report: RunReport) -> None:
    """Print what comes after an accepted test, which has no times and no place."""
    if report.verdict is Verdict.ACCEPTED and report.mode is Mode.TEST:
        out.print(Text(next_step(report), style="dim"))


def _log(out: Console, log: Log) -> None:
    if log.title:
        out.print(Text(f"{log.title}:" if log.text.strip() else log.title, style="bold"))
    if log.text.strip():
        indent = "  " if log.title else ""
        for line in shortened(log.text, first=log.first, last=log.last).split("\n"):
            raw(out, f"{indent}{line}")


def cases(out: Console, found: Cases) -> None:
    """Print the cases of a stage; if there are many, failed ones take precedence."""
    chosen = shown_cases(found.stage.cases)
    left_out = len(found.stage.cases) - len(chosen)
    timed = [found.insights[case.index] for case in chosen if case.index in found.insights]
    columns = lesson_text.columns(timed)
    table = table_of_cases(chosen, found, columns)
    is_narrow = bool(columns) and least_width(out, table) > out.width
    if is_narrow:
        # A column that is cut off would mislead.
        table = table_of_cases(chosen, found, {lesson_text.TIME: columns[lesson_text.TIME]})
    print_table(out, found.title, table, f"{left_out} more; --json has all" if left_out else "")
    for lesson in timed if is_narrow else ():
        if summary := lesson_text.summary(lesson):
            raw(out, plain(f"case {lesson.index}: {summary}"))
    for note, places in lesson_text.notes(found.insights.values()).items():
        out.print(Text(plain(f"{places}: {note}"), style="yellow"))


def table_of_cases(
    cases: Sequence[CaseResult], found: Cases, columns: Mapping[str, lesson_text.Column]
) -> Table:
    """Return a table of cases, with these columns for the timed ones."""
    names = ("case", "verdict", "parameters", *columns)
    table = new_table(*names, right=("case", *columns), whole=("case", "verdict", *columns))
    for case in cases:
        row: list[RenderableType] = [str(case.index), verdict_text(case.verdict), cell(parameters_text(case))]
        lesson = found.insights.get(case.index)
        table.add_row(*row, *(read(lesson) if lesson is not None else "" for read in columns.values()))
    return table


def shown_cases(cases: Sequence[CaseResult]) -> list[CaseResult]:
    """Return all cases if they are few, else the failed ones and the first of the others, in order."""
    by_need = sorted(cases, key=lambda case: (case.verdict is Verdict.ACCEPTED, case.index))
    return sorted(by_need[:SHOWN_CASES], key=lambda case: case.index)


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
