"""The errors that people meet first: what each means and what to do, found by the text of the error."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

from kernelcup_harness.protocol.data_files import read_table

C_FUNCTION = "int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context)"


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstError:
    """One kind of error. Texts may name the pattern's groups, ``{has}``: what the environment has, and
    ``{function}``: :data:`C_FUNCTION`.
    """

    pattern: str
    """Searched for in the text of the error, of any case, over several lines."""
    means: str
    do: str
    is_beside: bool = False
    """Whether it is meant only if a Python file of that name lies beside the submission."""
    is_all: bool = False
    """Whether a compiler's own lines add nothing."""


@cache
def table() -> tuple[FirstError, ...]:
    """Return the rows of ``first_errors.toml``, in the order in which they are looked for."""
    return tuple(FirstError(**row) for row in read_table(__package__, "first_errors.toml")["error"])


def find(text: str, beside: Collection[str] = ()) -> FirstError | None:
    """Return the first row of the table that an error's text matches.

    Args:
        text: The error.
        beside: The names of the files that lie where the submission was, and were not sent.
    """
    return next((row for row, _ in _matches(text, beside)), None)


def advice(text: str, *, has: str = "", beside: Collection[str] = ()) -> str:
    """Return what an error means and what to do, empty if the table does not know it.

    Args:
        text: The error.
        has: The packages of the environment.
        beside: The names of the files that lie where the submission was, and were not sent.
    """
    for row, found in _matches(text, beside):
        named = {**found.groupdict(""), "has": f" ({has})" if has else "", "function": C_FUNCTION}
        return f"{row.means} {row.do}".format(**named)
    return ""


def _matches(text: str, beside: Collection[str]) -> Iterator[tuple[FirstError, re.Match[str]]]:
    for row in table():
        found = re.search(row.pattern, text, re.IGNORECASE | re.DOTALL)
        if found is not None and (not row.is_beside or f"{found['name']}.py" in beside):
            yield row, found
