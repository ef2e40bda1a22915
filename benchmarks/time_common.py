"""What the measurements of times share: where lines go, jobs, and runners that wait.

Each script writes one JSON line a finding into ``FOLDER/time-NAME.jsonl``, with commit, harness hash and
device, and raw samples wherever a figure is a statistic. What a file has already of the same harness is
not measured again, so each part can be cut off and repeated. ``merge`` brings such files together:

    python benchmarks/time_common.py FOLDER...      adds their lines to benchmarks/results
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import timing_path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = timing_path.SOURCE
STORED = ROOT / "benchmarks/results"
sys.path.insert(0, str(SOURCE))

from results import machine_facts  # noqa: E402 - the folder of the sources comes first

from kernelcup.launchers.bundle import harness_hash  # noqa: E402
from kernelcup_harness.pool import job_socket, pool  # noqa: E402
from kernelcup_harness.protocol import (  # noqa: E402
    Backend,
    DeviceFacts,
    JobSpec,
    from_json,
    to_json,
)
from kernelcup_harness.protocol.calibration import DeviceCalibration  # noqa: E402

COMMAND = (sys.executable, "-P", "-m", "kernelcup_harness", "--die-with-parent", "--events", "-")
LONGEST_JOB_S = 120.0
READY_S = 180.0
FACTS_LAST_S = 1500.0
CANARIES = 50
COMMIT = "KERNELCUP_COMMIT"
"""Says which commit this is where there is no git, or that of another tree."""


@cache
def this_hash() -> str:
    """Return the identity of the harness."""
    return harness_hash()


def options(description: str | None, **defaults: Any) -> argparse.Namespace:
    """Read the command line: where results go, the backend, how long, and what a script adds."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backend", default="cuda", choices=[*Backend])
    parser.add_argument("--seconds", type=float, default=470.0, help="begin nothing new after so long")
    for name, value in defaults.items():
        flag, kind = f"--{name.replace('_', '-')}", type(value)
        parser.add_argument(flag, type=kind, default=value)
    return parser.parse_args()


class Log:
    """The lines of one script.

    Args:
        chosen: What :func:`options` has read.
        name: Of the file, without ``time-``.
    """

    def __init__(self, chosen: argparse.Namespace, name: str) -> None:
        chosen.folder.mkdir(parents=True, exist_ok=True)
        self._file = chosen.folder / f"time-{name}.jsonl"
        self._until = time.monotonic() + chosen.seconds
        self.backend = Backend(chosen.backend)
        self._about = about(self.backend)
        own = {"harness_hash": this_hash(), "backend": self.backend.value}
        lines = {line["id"]: line for path in (STORED / self._file.name, self._file) for line in read(path)}
        self.lines = [line for line in lines.values() if own.items() <= line.items()]

    @property
    def is_over(self) -> bool:
        """Whether nothing new should begin."""
        return time.monotonic() > self._until

    def count(self, **wanted: Any) -> int:
        """Return how many lines have these values."""
        return sum(wanted.items() <= line.items() for line in self.lines)

    def missing(self, wanted: int, **values: Any) -> Iterator[int]:
        """Yield the numbers of the lines that are still to be made, until it is over."""
        for number in range(self.count(**values), wanted):
            if self.is_over:
                return
            yield number

    def add(self, **values: Any) -> None:
        """Write one line."""
        note_canary(values.get("report"))
        line = {"id": os.urandom(6).hex(), "date": now(), **self._about, **rounded(values)}
        self.lines.append(line)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def say(self, text: str) -> None:
        """Tell whoever watches."""
        print(f"{datetime.now(UTC):%H:%M:%S}  {text}", flush=True)


def now() -> str:
    """Return the moment."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def about(backend: Backend) -> dict[str, Any]:
    """Return what each line says of where it comes from."""
    facts = machine_facts()
    commit = os.environ.get(COMMIT) or facts["commit"]
    return {
        "commit": commit,
        "harness_hash": this_hash(),
        "backend": backend.value,
        "device": gpu_name() if backend is Backend.CUDA else "",
        "cores": os.cpu_count(),
    }


def gpu_name() -> str:
    """Return the name of the first GPU."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, or of it with ``.gz`` behind; one that was cut off does not count."""
    found = []
    packed = path.with_name(f"{path.name}.gz")
    content = b"" if path.exists() or not packed.exists() else gzip.decompress(packed.read_bytes())
    for text in (path.read_bytes() if path.exists() else content).decode().splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found


def rounded(value: Any) -> Any:
    """Return values with floats cut to what clocks tell: tenths of nanoseconds, or six digits below 1000."""
    if isinstance(value, float):
        return round(value, 1) if abs(value) >= 1000 else float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def compact(report: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a report: verdicts, raw times, audits, calibration and phases."""
    names = ("verdict", "reason", "trust", "quarantine", "calibration", "phases", "duration_s", "duel")
    return {
        **{name: report[name] for name in names},
        "message": report["message"][-400:],
        "stages": [
            {
                "name": stage["name"],
                "verdict": stage["verdict"],
                "duration_s": stage["duration_s"],
                "cases": [compact_case(case) for case in stage["cases"] if case["timing"]],
            }
            for stage in report["stages"]
        ],
    }


def compact_case(case: dict[str, Any]) -> dict[str, Any]:
    """Return a timed case without what can be derived."""
    timing = {key: each for key, each in case["timing"].items() if key != "reported"}
    return {"parameters": case["parameters"], "floor_ns": case["floor_ns"], "timing": timing}


def facts(backend: Backend) -> DeviceFacts | None:
    """Return what the GPU can do, as its launcher would tell each job; measured once a machine and hash.

    Trees that a variable names share one: several are compared on one machine, and each calibration takes seconds.
    """
    if backend is not Backend.CUDA:
        return None
    name = "named" if os.environ.get(timing_path.VARIABLE) else this_hash()[:12]
    path = Path(tempfile.gettempdir(), f"kernelcup-facts-{name}.json")
    if not path.exists() or time.time() - path.stat().st_mtime > FACTS_LAST_S:
        command = [sys.executable, "-P", "-m", "kernelcup_harness", "--calibrate", backend.value]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
        path.write_text(json.dumps(json.loads(done.stdout.splitlines()[-1])["calibration"]))
    found = from_json(DeviceCalibration, json.loads(path.read_text()))
    return DeviceFacts(
        copy_bytes_per_s=found.bandwidth,
        matrix_flops_per_s=found.matrix_flops_per_s,
        l2_bytes=float(found.l2_bytes),
        launch_ns=found.launch_ns,
        empty_kernel_ns=found.profiled_empty_ns,
        canary_ns=usual_canary_ns(found.canary_ns),
        canary_tolerance=found.tolerance,
    )


def canaries() -> Path:
    """Return where the canaries of jobs on this machine are noted."""
    return Path(tempfile.gettempdir(), f"kernelcup-canaries-{this_hash()[:12]}.txt")


def note_canary(report: dict[str, Any] | None) -> None:
    """Note the canary of a job."""
    if report is not None and report.get("calibration") and report["calibration"]["canary_ns"]:
        with canaries().open("a", encoding="utf-8") as file:
            file.write(f"{report['calibration']['canary_ns']}\n")


def usual_canary_ns(calibrated_ns: float) -> float:
    """Return the rolling median of canaries, as a server knows it, which begins with the calibration's."""
    path = canaries()
    noted = [float(line) for line in path.read_text().split()] if path.exists() else []
    return statistics.median([calibrated_ns, *noted[-CANARIES:]]) if len(noted) > 3 else calibrated_ns


def environment() -> dict[str, str]:
    """Return the environment of runners: the harness is that of this folder."""
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


def run_cold(spec: JobSpec) -> tuple[float, dict[str, Any]]:
    """Run a job in processes that are started for it; return seconds until the verdict, and the report."""
    began = time.monotonic()
    done = subprocess.run(
        COMMAND,
        input=json.dumps(to_json(spec)).encode(),
        capture_output=True,
        env=environment(),
        timeout=LONGEST_JOB_S,
        check=False,
    )
    return time.monotonic() - began, report_of(done.stdout, done.stderr)


def report_of(output: bytes, log: bytes) -> dict[str, Any]:
    """Return the report that a runner wrote last. Raise ``RuntimeError`` where it wrote none."""
    try:
        return dict(json.loads(output.splitlines()[-1])["report"])
    except (IndexError, ValueError, KeyError) as error:
        raise RuntimeError(f"no report: {log[-2000:].decode('utf-8', 'replace')}") from error


class Warm:
    """Runners that wait. They are started together and not replaced while jobs are measured.

    Args:
        while_busy: Number of runners to keep waiting all the time instead, as a service does.
    """

    def __init__(self, backend: Backend, *, while_busy: int = 0) -> None:
        self._key = pool.Key.of(backend.value, environment())
        self._pool = pool.Pool(COMMAND, version=this_hash, while_busy=bool(while_busy))
        self.log = ""
        """What the harness's own processes printed in the last job."""
        if while_busy:
            self._pool.keep(self._key, while_busy)

    def fill(self, count: int) -> None:
        """Wait until ``count`` runners are ready, then start no more."""
        self._pool.keep(self._key, count)
        if not self._pool.wait_until_ready(self._key, READY_S):
            raise RuntimeError("the runners do not become ready")
        self._pool.keep(self._key, 0)

    @property
    def left(self) -> int:
        """How many wait."""
        return len(self._pool.waiting(self._key))

    def wait(self) -> None:
        """Return once there are as many as are wanted."""
        self._pool.wait_until_ready(self._key, READY_S)

    def run(self, spec: JobSpec) -> tuple[float, dict[str, Any]]:
        """Run a job; return seconds from its start to its verdict, and the report."""
        with self._pool.job(self._key) as runner, tempfile.TemporaryFile() as file:
            if runner is None:
                raise RuntimeError("no runner waits")
            file.write(json.dumps(to_json(spec)).encode())
            file.flush()
            began = time.monotonic()
            job_socket.send(runner.channel, file.fileno())
            assert runner.process.stdout is not None
            lines = []
            for line in runner.process.stdout:
                lines.append(line)
                if line.startswith(b'{"report"'):
                    break
            spent = time.monotonic() - began
            self.log = runner.log()
            return spent, report_of(b"".join(lines[-1:]), self.log.encode())

    def close(self) -> None:
        """Let all go."""
        self._pool.keep(self._key, 0)
        self._pool.close()


@contextmanager
def warm(backend: Backend, *, while_busy: int = 0) -> Iterator[Warm]:
    """Have runners for as long as the block lasts."""
    runners = Warm(backend, while_busy=while_busy)
    try:
        yield runners
    finally:
        runners.close()


def merge(folders: Sequence[Path]) -> None:
    """Add lines that are not there yet to the stored results."""
    for path in sorted(each for folder in folders for each in folder.rglob("time-*.jsonl")):
        target = STORED / path.name
        known = {line["id"] for line in read(target)}
        new = [line for line in read(path) if line["id"] not in known]
        with target.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in new)
        print(f"{target.relative_to(ROOT)}: {len(new)} more")


if __name__ == "__main__":
    merge([Path(name) for name in sys.argv[1:]])
