"""What a second opinion found in a submission, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcup.cli.show.output import plain

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.screen.findings import Remark, Screening

NO_VERDICT = "Tags are hints for reviewers, never a verdict."


def print_screening(out: Console, screening: Screening | None) -> None:
    """Print what a second opinion found; None means that there was none."""
    from rich.text import Text

    from kernelcup.cli.show import tables

    title = "Second opinion"
    if screening is None:
        out.print(
            Text(f"{title}: none (it is asked for during judging, if that is configured)", style="bold")
        )
        return
    if not screening.findings:
        out.print(Text(f"{title}: no tags ({plain(screening.rules_version)})", style="bold"))
        return
    table = tables.new_table("tag", "place", "why", "source", whole=("tag", "place"))
    for finding in screening.findings:
        source = plain(finding.source).replace("\n", " ").strip()
        row = (finding.tag, place(finding), finding.explanation, source)
        table.add_row(*(tables.cell(value) for value in row))
    more = f"{screening.left_out} more findings are left out. " if screening.left_out else ""
    head = f"{title} ({screening.rules_version}): {', '.join(screening.tags)}"
    tables.print_table(out, head, table, f"{more}{NO_VERDICT}", drop=("source",))


def place(finding: Remark) -> str:
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
