"""Calls by the wall clock on a GPU, by size: the time of a call that waits for the device, and of one that is empty.

    python benchmarks/wall_clock.py FOLDER [--seconds 200]

Writes one JSON line a size to ``FOLDER/wall-clock.jsonl``: the ranked time, the overhead measured beside it, the
submission's own time, and the time by CUDA events in an ordinary process. Needs torch and one NVIDIA GPU.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from time_common import Warm, facts, options

from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode

SIZES = tuple(1 << power for power in (12, 16, 18, 20, 22, 24, 26))
"""Bytes of the input and of the answer, each."""
REFERENCE = """\
import torch


def generate_input(count, seed):
    chance = torch.Generator("cuda").manual_seed(seed)
    return torch.rand(count, generator=chance, device="cuda")


def ref_kernel(data):
    return data * data.max()


def check_implementation(data, output):
    return "" if torch.allclose(output, ref_kernel(data)) else "wrong"
"""
SUBMISSION = """\
def custom_kernel(data):
    return data * data.max().item()
"""


def spec_of(nbytes: int) -> JobSpec:
    """Return the job of a size in bytes."""
    return JobSpec(
        job_id=f"wall-clock-{nbytes}",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE},
        private_files=["reference.py"],
        submission=SUBMISSION,
        tests=[{"count": 1024, "seed": 11}],
        benchmarks=[{"count": nbytes // 4, "seed": 12}],
        device=facts(Backend.CUDA),
    )


def plain_us(nbytes: int) -> float:
    """Return the median microseconds of the same call in this process, by its wall clock."""
    import torch

    data = torch.rand(nbytes // 4, device="cuda")
    found = []
    for _ in range(60):
        torch.cuda.synchronize()
        began = time.perf_counter()
        data * data.max().item()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return 1e6 * statistics.median(found[10:])


def line_of(nbytes: int, report: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a job, in microseconds."""
    timing = report["stages"][-1]["cases"][0]["timing"]
    return {
        "bytes": nbytes,
        "verdict": report["verdict"],
        "trust": report["trust"],
        "score_us": timing["audit"]["score_ns"] / 1e3,
        "overhead_us": (timing["overhead_ns"] or 0.0) / 1e3,
        "own_us": statistics.median(timing["own_ns"]) / 1e3,
        "plain_us": plain_us(nbytes),
        "why": report["environment"]["clean_room"].get("reason"),
    }


def main() -> None:
    """Run a job of each size."""
    chosen = options(__doc__)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warm, until = Warm(Backend.CUDA), time.monotonic() + chosen.seconds
    try:
        with (chosen.folder / "wall-clock.jsonl").open("a", encoding="utf-8") as file:
            for nbytes in SIZES:
                if time.monotonic() > until:
                    break
                if not warm.left:
                    warm.fill(4)
                _, report = warm.run(spec_of(nbytes))
                line = line_of(nbytes, report)
                file.write(json.dumps(line) + "\n")
                print(
                    {key: round(each, 1) if isinstance(each, float) else each for key, each in line.items()},
                    flush=True,
                )
    finally:
        warm.close()


if __name__ == "__main__":
    main()
