"""Duels in whole ranked jobs, on a GPU: what is told apart, and is it right?

    python benchmarks/clean_room_duels.py FOLDER [--seconds 300] [--duels 40]

Kernels ``spin_0`` and ``spin_1`` take 20 us and a percent more; they meet in both orders, and ``triton`` meets itself.
Writes one JSON line a duel to ``FOLDER/clean-room-duels.jsonl`` and goes on where it stopped. Needs torch, Triton and
one NVIDIA GPU.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from typing import Any

from clean_room_jobs import Lines, spec_of
from time_common import Warm, facts, options

from kernelcup_harness.protocol import Backend, Mode

NAME = "clean-room-duels.jsonl"
EQUAL = "triton"
BATCH = 4
WINNERS = {"faster": 0, "slower": 1, "tied": None}
"""The outcome of a duel for its first."""


def pair_of(kind: str, number: int) -> tuple[str, str]:
    """Return who meets whom in one duel of a kind."""
    if kind == "same":
        return EQUAL, EQUAL
    return ("spin_0", "spin_1") if number % 2 else ("spin_1", "spin_0")


def outcome(report: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return who won (0 or 1, None for a tie), the logarithm of the ratio and the seconds; or why there was no duel."""
    duel = report["duel"]
    if not duel or duel["verdict"] not in WINNERS:
        return {"failed": report["message"][-300:] or (duel or {}).get("rival_message", "no duel")}
    return {
        "winner": WINNERS[duel["verdict"]],
        "mean": math.log(duel["ratio"]),
        "pairs": len(duel["ratios"]),
        "seconds": report["phases"].get("replay/duel", seconds),
    }


def main() -> int:
    """Hold the duels that are missing, of both kinds in turns."""
    chosen = options(__doc__, duels=40)
    until = time.monotonic() + chosen.seconds
    lines, known, warm = Lines(chosen.folder, Backend.CUDA, NAME), facts(Backend.CUDA), Warm(Backend.CUDA)
    try:
        for number in range(chosen.duels):
            for kind in ("differ", "same"):
                if time.monotonic() > until:
                    return 0
                if lines.count(kind=kind) > number:
                    continue
                if not warm.left:
                    warm.fill(BATCH)
                mine, rival = pair_of(kind, number)
                spec, other = (spec_of(each, Mode.LEADERBOARD, Backend.CUDA) for each in (mine, rival))
                spec = dataclasses.replace(spec, rival=other.submission, device=known)
                seconds, report = warm.run(spec)
                found = outcome(report, seconds)
                lines.add(kind=kind, pair=[mine, rival], trust=report["trust"], **found)
                print(f"{kind} {mine} {rival}: {report['trust']} {found}", flush=True)
    finally:
        warm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
