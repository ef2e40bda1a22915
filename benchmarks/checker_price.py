"""What a job pays for the process that checks its answers.

    PYTHONPATH=src python benchmarks/checker_price.py [--backend cpu] [--repeats 20]

Warm jobs of the harness as it is take turns with those of a copy of it that checks answers in the judge's own process.
The jobs and the clock are those of ``start_up.py``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from results import machine_facts, publish
from start_up import READY_S, job, one

from kernelcup.domain import Device
from kernelcup.launchers.bundle import PACKAGE, harness_hash
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.protocol import Backend, Mode

FORKS = "        before_device=lambda: servers.append(fork_server()),\n"
"""The line of the judge's process that a harness without the checker's process lacks."""


def main() -> int:
    """Measure and write the result. Return 1 where a run was not accepted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="cpu", choices=[*Backend])
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    backend = Backend(options.backend)
    found = measured(backend, options.repeats)
    result = {**machine_facts(), "harness_hash": harness_hash(), "backend": backend.value, **found}
    publish(f"checker-price-{backend.value}.json", {**result, "repeats": options.repeats})
    return 0 if result["accepted"] else 1


def measured(backend: Backend, repeats: int) -> dict[str, Any]:
    """Return the seconds with the process and without it, in each mode, and their difference."""
    found: dict[str, Any] = {"accepted": True}
    with tempfile.TemporaryDirectory() as folder:
        sources = {"with": PACKAGE.parent, "without": without(Path(folder))}
        launchers = {name: launcher(Path(folder), source) for name, source in sources.items()}
        device = Device(name=backend.value, backend=backend)
        try:
            for mode in (Mode.TEST, Mode.LEADERBOARD):
                seconds: dict[str, list[float]] = {name: [] for name in launchers}
                for number in range(repeats):
                    for name, each in launchers.items():
                        each.keep_ready([device])
                        each.wait_until_ready(READY_S)
                        took_s, accepted, _ = one(each, device, job(backend, mode, number))
                        seconds[name].append(took_s)
                        found["accepted"] &= accepted
                pairs = zip(seconds["with"], seconds["without"], strict=True)
                found[mode.value] = {name: statistics.median(each) for name, each in seconds.items()} | {
                    "difference": statistics.median(a - b for a, b in pairs)
                }
        finally:
            for each in launchers.values():
                each.close()
    return found


def without(folder: Path) -> Path:
    """Return the folder of a harness that checks answers in the judge's process."""
    copied = folder / "source" / PACKAGE.name
    shutil.copytree(PACKAGE, copied)
    process = copied / "judge_process.py"
    text = process.read_text()
    assert FORKS in text
    process.write_text(text.replace(FORKS, ""))
    return copied.parent


def launcher(folder: Path, source: Path) -> LocalLauncher:
    """Return a launcher that runs the harness of a folder, with one runner that waits."""
    code = f"import runpy, sys; sys.path.insert(0, {str(source)!r}); "
    code += "runpy.run_module('kernelcup_harness', run_name='__main__', alter_sys=True)"
    command = (sys.executable, "-P", "-c", code, "--die-with-parent", "--events", "-")
    return LocalLauncher(runtime_dir=folder, environ=os.environ, command=command, warm=1, while_busy=False)


if __name__ == "__main__":
    raise SystemExit(main())
