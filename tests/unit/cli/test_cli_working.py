"""What is shown while a command takes long."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kernelcup.cli.show.working import working


def shown(*, terminal: bool, quiet: bool = False) -> str:
    """Return what is written while something is done."""
    out = Console(file=io.StringIO(), force_terminal=terminal, width=80)
    with working("vectoradd: [inputs] and null submissions on cpu", out, quiet=quiet) as say:
        say("template [Triton]")
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_terminal_is_shown_what_takes_long_and_for_how_long() -> None:
    text = shown(terminal=True)
    assert "vectoradd: [inputs] and null submissions on cpu" in text
    assert "0:00:00" in text


def test_a_pipe_gets_one_line_a_step() -> None:
    text = "vectoradd: [inputs] and null submissions on cpu\ntemplate [Triton]\n"
    assert shown(terminal=False) == text


@pytest.mark.parametrize("terminal", [False, True])
def test_beside_json_nothing_is_shown(terminal: bool) -> None:
    assert shown(terminal=terminal, quiet=True) == ""


def test_what_fails_meanwhile_is_told_as_ever() -> None:
    out = Console(file=io.StringIO(), force_terminal=True, width=80)
    with pytest.raises(ValueError, match="a task"), working("vectoradd", out):
        raise ValueError("a task")
