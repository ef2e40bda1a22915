"""Everything that ``benchmarks/show.py`` shows, on a GPU, the most telling first; goes on where it stopped.

    python benchmarks/clean_room_all.py FOLDER [--seconds 540] [--from 0]

Runs the scripts of ``STEPS`` one after the other, each for what is left of the time. What has been measured of the same
modules on the timing path is not measured again, so several calls with the same folder, or with the lines of earlier
ones in ``benchmarks/results``, end with all of it. A step that fails costs the others nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from time_common import options

HERE = Path(__file__).resolve().parent
SCATTERED = "small,splitk,more_0,triton,matmul,aten,vectoradd"
"""Kinds of 2 to 45 us that are measured in 20 fresh processes each."""
STEPS = (
    ("clean_room_jobs.py",),
    ("clean_room_attacks.py",),
    ("clean_room_bias.py", "--runs", "1"),
    ("clean_room_duels.py",),
    ("clean_room_throughput.py",),
    ("clean_room_attacks.py", "--runs", "3"),
    ("clean_room_jobs.py", "--only", SCATTERED, "--runs", "20", "--batch", "10"),
    ("clean_room_jobs.py", "--runs", "4", "--batch", "10"),
    ("clean_room_bias.py", "--runs", "3"),
)
LEAST_S = 15.0
"""With less time left no step begins."""


def main() -> int:
    """Run the steps until the time is over; return 1 if one of them failed."""
    chosen, failed = options(__doc__, **{"from": 0}), 0
    until = time.monotonic() + chosen.seconds
    for number, (script, *more) in enumerate(STEPS):
        left = until - time.monotonic()
        if number < getattr(chosen, "from") or left < LEAST_S:
            continue
        print(f"== {number}: {script} {' '.join(more)}, {left:.0f} s left", flush=True)
        command = [sys.executable, str(HERE / script), str(chosen.folder), "--seconds", str(left), *more]
        failed += subprocess.run(command, check=False).returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
