"""What all tests of commands share."""

from __future__ import annotations

import pytest

from kernelcup.cli import wiring


@pytest.fixture(autouse=True)
def nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make leaderboards without trying their tasks: that takes seconds, and ``test_task_trial.py`` does it."""
    monkeypatch.setattr(wiring, "make_trial", lambda *_: None)


@pytest.fixture(autouse=True)
def no_terminal_is_imitated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the width of output to the commands: pytest-xdist's workers have one in their environment."""
    monkeypatch.delenv("COLUMNS", raising=False)
