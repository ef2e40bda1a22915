"""A final from the first submission to the official order, on this machine's processor."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cup import Cup

from final_duels import close
from kernelcup.engine.database import Database

pytestmark = pytest.mark.jobs

TASK = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Return a copy of the tensor.
tests:
  - {size: 8, seed: 1}
benchmarks:
  - {size: 8, seed: 2}
"""
REFERENCE = """\
import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> str:
    return "" if torch.equal(data, output) else "not a copy"
"""
WAITS = {"slow": 0.06, "fast": 0.004, "mid": 0.015}
"""Seconds that a call of each user's submission waits. The fast one waits too: a call of microseconds that another
process interrupts takes a thousand times as long, and its interval then reaches the next one."""


def submission(wait_s: float) -> str:
    return f"import time\n\n\ndef custom_kernel(data):\n    time.sleep({wait_s})\n    return data.clone()\n"


def test_a_final_without_a_gpu_goes_by_intervals(cup: Cup) -> None:
    (cup.folder / "copy").mkdir()
    cup.write("copy/task.yml", TASK)
    cup.write("copy/reference.py", REFERENCE)
    config = cup.folder / "kernelcup.toml"
    config.write_text(config.read_text() + '\n[[devices]]\nname = "cpu"\nbackend = "cpu"\n')
    rules = ("--device", "cpu", "--cpu-times", "--deadline", "2999-12-31")
    # A copy of the input is a right answer here.
    cup.json("board", "create", "copy", *rules, "--force")
    for user, wait_s in WAITS.items():
        cup.json("submit", cup.write(f"{user}.py", submission(wait_s)), "--user", user, "--board", "copy")
    refused = cup.json("board", "final", "copy", code=3)
    assert refused["error"]["code"] == "leaderboard_open"
    with Database.open(f"sqlite:///{cup.folder / 'data' / 'kernelcup.db'}") as db:
        close(db, "copy", datetime.now(UTC))

    held = cup.json("board", "final", "copy", "--top", "3")
    assert [(each["place"], each["user"]) for each in held["places"]] == [
        (1, "fast"),
        (2, "mid"),
        (3, "slow"),
    ]
    assert {each["by"] for each in held["meetings"]} == {"intervals"}
    assert held["waiting"] is None
    assert cup.json("board", "show", "copy")["finals"] == [held]
    shown = cup("board", "final", "copy").stdout
    assert "Official order of copy on cpu" in shown
    assert "duel 1 of the final" not in shown  # it is not held again
