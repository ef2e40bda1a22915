"""What all tests of commands share."""

from __future__ import annotations

from functools import cache

import pytest

from kernelcup.app.boards import git_source
from kernelcup.cli import wiring

DESCRIBED = cache(wiring.describe_harness)
COUNTERS = cache(wiring.counters_trouble)


@pytest.fixture(autouse=True)
def the_harness_describes_this_machine_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the harness, a process of its own each time, only once what this machine has."""
    monkeypatch.setattr(wiring, "describe_harness", DESCRIBED)
    monkeypatch.setattr(wiring, "counters_trouble", COUNTERS)


@pytest.fixture(autouse=True)
def repositories_are_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read repositories in this process; ``test_problem_sync.py`` tries the one with limits."""
    monkeypatch.setattr(git_source, "fetch_problems", lambda _actor, *rest: git_source.fetch_here(*rest))


@pytest.fixture(autouse=True)
def nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make leaderboards without trying their tasks: that takes seconds, and ``test_task_trial.py`` does it."""
    monkeypatch.setattr(wiring, "make_trial", lambda *_: None)


@pytest.fixture(autouse=True)
def no_terminal_is_imitated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the width of output to the commands: pytest-xdist's workers have one in their environment."""
    monkeypatch.delenv("COLUMNS", raising=False)
