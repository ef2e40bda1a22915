"""A job says how often a duel of equal submissions may find a difference."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from fake_room import judged_in_room
from harness_runs import HONEST, quick_spec

from kernelcup_harness.clocks.replay import match
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    MeasureRules,
    Mode,
    ProtocolError,
    check_spec,
)

SHARE = 0.02 / 45
"""Of a final of ten."""


def job(rival_error: float) -> JobSpec:
    return quick_spec(
        HONEST,
        mode=Mode.LEADERBOARD,
        backend=Backend.CPU,
        tests=[],
        rules=MeasureRules(warmups=1, min_samples=3, max_samples=4, stage_budget_s=0.4),
        rival=HONEST,
        rival_error=rival_error,
    )


def test_a_duel_by_replays_takes_the_error_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, real = [], match.duels.decide

    def noted(more: Any, *, error: float, loads: int) -> Any:
        given.append(error)
        return real(more, error=error, loads=loads, most=40)

    monkeypatch.setattr(match.duels, "decide", noted)
    judged_in_room(job(SHARE), tmp_path)
    assert given == [SHARE]


@pytest.mark.parametrize("error", [0.0, 1.0, math.nan])
def test_an_error_that_no_interval_has_is_refused(error: float) -> None:
    with pytest.raises(ProtocolError, match="rival_error"):
        check_spec(job(error))
