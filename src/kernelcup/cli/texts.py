"""Texts on their way to a terminal: nothing that a submission or a file name says may command it."""

from __future__ import annotations

LONGEST_LINE = 2000

# Control characters but newline and tab, and those that turn the direction of writing.
_CONTROLS = [*range(9), *range(11, 32), *range(0x7F, 0xA0)]
_DIRECTIONS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" for code in _CONTROLS} | {code: f"\\u{code:04x}" for code in _DIRECTIONS}


def plain(text: str) -> str:
    """Return text with its control characters made visible; a carriage return begins a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_VISIBLE)


def shortened(text: str, *, first: int, last: int) -> str:
    """Return a text for people: without control characters, long lines and too many lines cut."""
    lines = [
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} [{len(line) - LONGEST_LINE} more]"
        for line in plain(text).rstrip().split("\n")
    ]
    left_out = len(lines) - first - last
    if left_out > 0:
        lines[first : len(lines) - last] = [f"[{left_out} lines left out; --json has all that is stored]"]
    return "\n".join(lines)
