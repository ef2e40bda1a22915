"""``kernelcup screen``, and how a static screening is shown."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import typer

from kernelcup.cli.options import ConfigOption, JsonOption, SubmissionFile
from kernelcup.cli.show.plain_text import plain
from kernelcup.cli.wiring import second_opinion

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.screen.findings import Finding, Screening

NO_VERDICT = "Tags are hints for reviewers, never a verdict."


def screen(file: SubmissionFile, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show which parts of FILE the static screen points out to reviewers.

    The file is only read, never run. No tag changes a verdict or this command's exit code.
    """
    from kernelcup.cli import wiring
    from kernelcup.cli.show import terminal
    from kernelcup.services.submissions.screening import screen_file
    from kernelcup.services.submissions.submit import read_code

    opinion = second_opinion(wiring.load_config(config))
    code = read_code(wiring.read_file(file))
    found = screen_file(os.fsencode(file.name).decode("utf-8", "replace"), code, opinion)
    if as_json:
        typer.echo(json.dumps(as_object(found)))
    else:
        print_screening(terminal.console(), found)


def print_screening(out: Console, screening: Screening | None) -> None:
    """Print what the static screen found; None means not screened yet."""
    from rich.text import Text

    from kernelcup.cli.show import tables

    title = "Static screen"
    if screening is None:
        out.print(Text(f"{title}: not screened yet (screening runs during judging)", style="bold"))
        return
    if not screening.findings:
        out.print(Text(f"{title}: no tags (rules {plain(screening.rules_version)})", style="bold"))
        return
    table = tables.new_table("tag", "place", "why", "source", whole=("tag", "place"))
    for finding in screening.findings:
        source = plain(finding.source).replace("\n", " ").strip()
        row = (finding.tag, place(finding), finding.explanation, source)
        table.add_row(*(tables.cell(value) for value in row))
    more = f"{screening.left_out} more findings are left out. " if screening.left_out else ""
    head = f"{title} (rules {screening.rules_version}): {', '.join(screening.tags)}"
    tables.print_table(out, head, table, f"{more}{NO_VERDICT}", drop=("source",))


def place(finding: Finding) -> str:
    """Return line and column as text for people; empty for the whole file."""
    return f"{finding.line}:{finding.column}" if finding.line else ""


def as_object(screening: Screening | None) -> dict[str, object] | None:
    """Return a screening as ``--json`` prints it."""
    if screening is None:
        return None
    return {
        "rules_version": screening.rules_version,
        "tags": list(screening.tags),
        "findings": [
            {
                "tag": finding.tag,
                "line": finding.line,
                "column": finding.column,
                "source": finding.source,
                "explanation": finding.explanation,
            }
            for finding in screening.findings
        ],
        "left_out": screening.left_out,
    }
