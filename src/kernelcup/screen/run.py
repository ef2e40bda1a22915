"""The screen itself: it parses a text if possible, and otherwise reads its words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import accumulate

from kernelcup import python_parser
from kernelcup.screen import cpp, plain_text
from kernelcup.screen.findings import Lines, Screening, Spot, Tag, chosen
from kernelcup.screen.python_tree import Tree

RULES_VERSION = "1"
"""Changes with the rules, so that stored screenings record which rules made them."""

MAX_TOKENS = 60_000
"""A tree takes some 10 µs and 1 kB for each token; a file with more tokens is not a hand-written kernel."""
# Unterminated strings extend to the end of the text, so that the time stays proportional to its length.
_TOKEN = re.compile(
    r'(?P<triple>"""(?:[^"\\]|\\.|"(?!""))*(?:"""|\\?\Z))|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*(?:\'\'\'|\\?\Z)'
    r'|"(?:[^"\\\n]|\\.)*(?:"|\\?$|\\?\n)|\'(?:[^\'\\\n]|\\.)*(?:\'|\\?$|\\?\n)|\#[^\n]*|\w+|[^\w\s]',
    re.DOTALL | re.MULTILINE,
)


def screen(text: str, *, is_native: bool = False) -> Screening:
    """Return the findings in a submission. Never raise, and never run any of it.

    Args:
    is_native: Whether the text is C++ or CUDA instead of Python.
    """
    # A file may begin with a byte order mark; a string may not.
    lines = Lines(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    spots = [*plain_text.anywhere(lines), *(cpp.scan(lines.text) if is_native else _python(lines))]
    findings, left_out = chosen(spots, lines)
    return Screening(rules_version=RULES_VERSION, findings=findings, left_out=left_out)


def _python(lines: Lines) -> Iterator[Spot]:
    parsed = _parse(lines.text)
    if isinstance(parsed, Spot):
        yield parsed
        yield from plain_text.bare(lines)
        if cpp.LOOKS_NATIVE.search(lines.text):
            yield from cpp.scan(lines.text)
    else:
        yield from Tree(parsed).spots()


def _parse(text: str) -> ast.Module | Spot:
    if _has_too_many_tokens(text):
        return Spot(1, 0, Tag.UNPARSABLE, f"Has more than {MAX_TOKENS:,} words and signs.")
    try:
        return python_parser.parse(text)
    except SyntaxError as error:
        explanation = f"Is not Python: {error.msg}."[:200]
        return Spot(max(error.lineno or 1, 1), max((error.offset or 1) - 1, 0), Tag.SYNTAX_ERROR, explanation)
    except (RecursionError, MemoryError):
        return Spot(1, 0, Tag.UNPARSABLE, "Is nested too deeply.")
    except ValueError:
        return Spot(1, 0, Tag.UNPARSABLE, "Has a character that no Python file may have.")


def _has_too_many_tokens(text: str) -> bool:
    if len(text) <= MAX_TOKENS:
        return False
    # The braces of an f-string contain code.
    counts = (1 + match[0].count("{") for match in _TOKEN.finditer(text))
    return any(total > MAX_TOKENS for total in accumulate(counts))
