"""Fixtures of the harness's tests."""

from __future__ import annotations

import pytest

from kernelcup_harness import schedule


@pytest.fixture
def by_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take claims and hold the judge's clock against them, as for a GPU: without one the wall clock is taken."""
    monkeypatch.setattr(schedule, "by_wall_clock", lambda _spec: False)
