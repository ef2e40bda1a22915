"""What the doctor says about the level of times that a machine gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli_commands import Command, command, home

from kernelcup.cli import wiring

__all__ = ["command", "home"]


@pytest.mark.parametrize(
    ("backend", "trouble", "told"),
    [
        ("cuda", "", "ok       level        witnessed: "),
        ("cuda", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "missing  level        replayed: "),
        ("cpu", "", "ok       level        wall clock: "),
    ],
)
def test_the_doctor_says_which_level_of_times_this_machine_gives(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch, backend: str, trouble: str, told: str
) -> None:
    (home / "kernelcup.toml").write_text(f'\n[[devices]]\nname = "box"\nbackend = "{backend}"\n')
    monkeypatch.setattr(wiring, "counters_trouble", lambda: trouble)
    (line,) = [each for each in command("doctor").out.splitlines() if " level  " in each]
    assert line.startswith(told)
    assert trouble in line
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in line) == bool(trouble)


def test_the_harness_says_why_it_cannot_read_counters_where_there_is_no_gpu() -> None:
    assert "libcu" in wiring.counters_trouble()
