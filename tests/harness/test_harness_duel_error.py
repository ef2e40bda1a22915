"""A job says how often a duel of equal submissions may find a difference."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from fake_room import judged_in_room
from harness_runs import quick_spec
from inside import judged

from kernelcup_harness.audit import bench
from kernelcup_harness.judge.duel import Block, result
from kernelcup_harness.judge.replay import match
from kernelcup_harness.protocol import (
    Backend,
    DuelResult,
    JobSpec,
    MeasureRules,
    Mode,
    ProtocolError,
    check_spec,
)

HONEST = "def custom_kernel(data):\n    return data * 2\n"

SHARE = 0.02 / 45
"""Of a final of ten."""
BLOCKS = [Block(taken_ns=([1e6 * (0.99 + 0.004 * (number % 5))], [1e6])) for number in range(60)]


def width(found: DuelResult) -> float:
    return math.log(found.high / found.low)


def test_a_smaller_error_makes_the_interval_wider() -> None:
    usual, strict = result(BLOCKS), result(BLOCKS, SHARE)
    assert strict.ratio == usual.ratio
    quantiles = [NormalDist().inv_cdf(1 - error / 2) for error in (SHARE, 0.02)]
    assert width(strict) / width(usual) == pytest.approx(quantiles[0] / quantiles[1], rel=0.1)


def errors_used(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, place: int | str) -> list[float]:
    """Note the error that each decision of a module is given."""
    given, real = [], getattr(module, name)

    def noted(*args: Any, **options: Any) -> Any:
        given.append(options[place] if isinstance(place, str) else args[place])
        return real(*args, **options)

    monkeypatch.setattr(module, name, noted)
    return given


def job(rival_error: float) -> JobSpec:
    return quick_spec(
        HONEST,
        mode=Mode.LEADERBOARD,
        backend=Backend.CPU,
        tests=[],
        rules=MeasureRules(warmups=1, min_samples=3, max_samples=4, stage_budget_s=0.4),
        rival=HONEST,
        rival_name="rival.py",
        rival_error=rival_error,
    )


def test_a_duel_by_calls_takes_the_error_of_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = errors_used(monkeypatch, bench, "result", 1)
    judged(job(SHARE), tmp_path)
    assert given == [SHARE]


def test_a_duel_by_replays_takes_the_error_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = errors_used(monkeypatch, match.duels, "decide", "error")
    judged_in_room(job(SHARE), tmp_path)
    assert given == [SHARE]


@pytest.mark.parametrize("error", [0.0, 1.0, math.nan])
def test_an_error_that_no_interval_has_is_refused(error: float) -> None:
    with pytest.raises(ProtocolError, match="rival_error"):
        check_spec(job(error))
