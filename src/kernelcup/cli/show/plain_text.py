"""Texts for a terminal, cleared of control sequences from submissions and file names."""

from __future__ import annotations

from kernelcup.clean_text import plain

__all__ = ["LONGEST_LINE", "plain", "shortened"]

LONGEST_LINE = 2000


def shortened(text: str, *, first: int, last: int) -> str:
    """Return a text for people: control characters removed, long lines and long texts cut."""
    lines = [
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} [{len(line) - LONGEST_LINE} more]"
        for line in plain(text).rstrip().split("\n")
    ]
    left_out = len(lines) - first - last
    if left_out > 0:
        lines[first : len(lines) - last] = [f"[{left_out} lines left out; --json has all that is stored]"]
    return "\n".join(lines)
