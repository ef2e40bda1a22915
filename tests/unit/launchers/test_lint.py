"""Having a task tried in a child process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from builders import make_device, make_spec
from kernelcup.errors import BadReport, LaunchError
from kernelcup.launchers.local.gpu_locks import Slots
from kernelcup.launchers.local.lint import run_lint
from kernelcup_harness.protocol import Backend, dumps
from kernelcup_harness.protocol.lint import LintReport


def launched(folder: Path, *command: str) -> LintReport:
    """Run a stand-in for the harness."""
    device = make_device(backend=Backend.EMULATED)
    return run_lint(make_spec(), device, Slots(folder / "locks", {}), environ={}, command=command)


def test_the_last_line_is_the_report(tmp_path):
    report = LintReport(tried=7, notes=["tests.0: x"])
    lines = f'log\n{{"lint": {dumps(report)}}}'
    assert launched(tmp_path, sys.executable, "-c", f"print({lines!r})") == report


@pytest.mark.parametrize("printed", ["", "7", "{}", '{"lint": 7}', '{"lint": {"tried": "many"}}', "no json"])
def test_anything_else_is_no_report(tmp_path, printed):
    code = f"import sys; print({printed!r}); sys.exit('it broke')"
    with pytest.raises(BadReport, match="it broke"):
        launched(tmp_path, sys.executable, "-c", code)


def test_a_harness_that_cannot_be_started_is_an_error_of_the_machine(tmp_path):
    with pytest.raises(LaunchError, match="cannot be started"):
        launched(tmp_path, str(tmp_path / "none"))
