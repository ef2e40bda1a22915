"""``python -m kernelcup_harness [JOB.json] [--report FILE] [--events] [--die-with-parent] [--describe]
[--counters] [--origins] [--lint [--no-nulls]] [--ahead BACKEND [--ranks N] [--background]] [--calibrate BACKEND]``.

Reads a JobSpec as JSON from the file or, without one or with ``-``, from standard input. Writes JSON
lines to standard output: with ``--events`` the events as they come, and at the end
``{"report": {...}}``, or the bare report to FILE. Exit code 0 means that there is a report, with any
verdict; 2 that the job could not be read. ``--describe`` judges nothing and describes this machine,
its sandbox and the links between its GPUs; ``--counters`` says in ``{"counters": ""}`` why its GPU's counters
cannot be read, empty if they can. ``--origins`` lists the machine code of the machine's libraries, so that reports name
where kernels come from. ``--lint`` judges the task instead of a submission: null submissions are given to its
checker, and the last line is ``{"lint": {...}}``; ``--no-nulls`` only tries large seeds on its inputs
and its reference. ``--calibrate`` judges nothing either: it measures the first device of a backend,
and the last line is ``{"calibration": {...}}``. ``--compile sm_90a,sm_100a`` compiles a submission in CUDA C++
without a device, and the last line is ``{"compiled": {...}}``. ``--builds`` compiles at the lowest priority what
the job's processes need, for the machine's store of builds; the last line is ``{"built": true}``, or the report
if that ends the job.

With ``--ahead`` judge and contestants are started before the job is read, and ``{"ready": true}`` is
written once they wait for it; ``--ranks`` starts those of a job on several GPUs, ``--background`` starts
them at the lowest priority, if it can be raised again. Standard input may then be a Unix socket: a byte
comes with the descriptor of a file that holds the job, and others that stay open until the end. If it ends
without a job, the runner exits with 0; code 3 means that the processes could not be started.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelcup_harness import witness_process
from kernelcup_harness.build import inspection
from kernelcup_harness.device import accelerators, machine
from kernelcup_harness.device.nvidia import topology
from kernelcup_harness.isolation import environments, origins, priority, processes, sandbox
from kernelcup_harness.lint import run as lint_run
from kernelcup_harness.pool import job_socket
from kernelcup_harness.protocol import Backend, JobSpec, ProtocolError, check_spec, dumps, loads, to_json
from kernelcup_harness.run.runner import build_ahead, run_job, started_ahead
from kernelcup_harness.run.workers import NotStarted, Workers

NOT_STARTED = 3
COUNTERS_S = 60


def main() -> int:
    """Run one job."""
    options = parse_options()
    if options.die_with_parent:
        processes.die_with_parent(os.getppid())
    if options.describe:
        links = topology.Topology()
        emit(
            {
                "machine": machine.machine(),
                "sandbox": sandbox.describe(),
                "gpu_trouble": accelerators.of(Backend.CUDA).sandbox_trouble(),
                "links": topology.described(links.links()),
            }
        )
        return 0
    if options.counters:
        emit({"counters": witness_process.trouble()})
        return 0
    if options.origins:
        return list_origins()
    if options.calibrate:
        return calibrate(Backend(options.calibrate))
    # A cancelled job cleans up like one that has ended.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    return wait_and_run(options) if options.ahead else run(options, read_text(options.job), None)


def list_origins() -> int:
    """List whose machine code the libraries of this machine hold."""
    probe = processes.python_argv("kernelcup_harness.device.nvidia.origins_probe", "main")
    try:
        found = origins.make(os.environ, probe)
    except origins.NoOrigins as none:
        sys.stderr.write(f"{none}\n")
        return 2
    counts = {name: list(found.names.values()).count(name) for name in sorted(set(found.names.values()))}
    emit({"origins": {"images": counts, "missing": found.missing}})
    return 0


def calibrate(backend: Backend) -> int:
    """Measure the device and write the result."""
    from kernelcup_harness.device import calibration

    try:
        blind = counters_trouble() if backend is Backend.CUDA else None
        found = calibration.calibrate(backend)
        usual = environments.named("", {})
        has = environments.packages(usual)
        found = replace(found, environment=usual.hash, packages=has, no_counters=blind)
    except (ImportError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"{backend.value}: {error}\n")
        return 2
    emit({"calibration": to_json(found)})
    return 0


def counters_trouble() -> str | None:
    """Return what ``--counters`` says in a process of its own, without a context; None if it says nothing."""
    command = [sys.executable, "-P", "-m", "kernelcup_harness", "--counters"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=COUNTERS_S, check=True)
        return str(json.loads(done.stdout)["counters"])
    except (subprocess.SubprocessError, OSError, ValueError, KeyError):
        return None


def wait_and_run(options: argparse.Namespace) -> int:
    """Start the processes of a job, then wait for the job and run it."""
    try:
        ahead = started_ahead(Backend(options.ahead), options.ranks)
        with priority.lowered(options.background), ahead as workers:
            priority.raise_again()
            emit({"ready": True})
            text = job_socket.read_job(options.job)
            return 0 if text is None else run(options, text, workers)
    except NotStarted as error:
        sys.stderr.write(f"{error}\n")
        return NOT_STARTED


def read_text(job: str) -> bytes | OSError:
    """Return the text of a job, or the error that reading it raised."""
    try:
        return sys.stdin.buffer.read() if job == "-" else Path(job).read_bytes()
    except OSError as error:
        return error


def run(options: argparse.Namespace, text: bytes | OSError, ahead: Workers | None) -> int:
    """Judge the job that a text describes, and write the report."""
    try:
        if isinstance(text, OSError):
            raise text
        spec = loads(JobSpec, text.decode("utf-8"))
        check_spec(spec)
    except (OSError, UnicodeDecodeError, ProtocolError) as error:
        sys.stderr.write(f"{options.job}: {error}\n")
        return 2
    if options.compile:
        listings = options.listings.split(",")
        emit({"compiled": to_json(inspection.inspect(spec, options.compile.split(","), listings))})
        return 0
    if options.builds:
        os.setpriority(os.PRIO_PROCESS, 0, priority.LOWEST)
        ended = build_ahead(spec)
        emit({"built": True} if ended is None else {"report": to_json(ended)})
        return 0
    if options.lint:
        emit({"lint": to_json(lint_run.run_lint(spec, nulls=not options.no_nulls))})
        return 0
    report = run_job(spec, emit if options.events else ignore, ahead)
    if options.report:
        Path(options.report).write_text(dumps(report) + "\n", encoding="utf-8")
    else:
        emit({"report": to_json(report)})
    return 0


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m kernelcup_harness", description="Judge one submission.")
    parser.add_argument("job", nargs="?", default="-", help="JobSpec as JSON; - for standard input")
    parser.add_argument(
        "--report", metavar="FILE", help="write the report here instead of to standard output"
    )
    parser.add_argument("--events", action="store_true", help="write events as they come")
    parser.add_argument("--die-with-parent", action="store_true", help="end when the caller ends")
    parser.add_argument("--describe", action="store_true", help="describe this machine, and judge nothing")
    parser.add_argument("--counters", action="store_true", help="try the GPU's counters, and judge nothing")
    parser.add_argument("--origins", action="store_true", help="list the libraries' code, and judge nothing")
    parser.add_argument("--lint", action="store_true", help="try null submissions against the task")
    parser.add_argument("--no-nulls", action="store_true", help="with --lint: try inputs and reference only")
    parser.add_argument("--compile", default="", metavar="ARCHITECTURES", help="compile only, for sm_90a,...")
    parser.add_argument("--builds", action="store_true", help="compile ahead what the job needs, and end")
    parser.add_argument("--listings", default="", metavar="KINDS", help="with --compile: ptx, sass")
    parser.add_argument(
        "--ahead", choices=[*Backend], metavar="BACKEND", help="start for this backend before the job is read"
    )
    parser.add_argument(
        "--calibrate", choices=[*Backend], metavar="BACKEND", help="measure what a device can do"
    )
    parser.add_argument("--ranks", type=int, default=0, metavar="N", help="with --ahead: on N GPUs at once")
    parser.add_argument("--background", action="store_true", help="start ahead at the lowest priority")
    return parser.parse_args()


def emit(line: dict[str, Any]) -> None:
    """Write one JSON line."""
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def ignore(_line: dict[str, Any]) -> None:
    """Drop a line: events were not asked for."""


if __name__ == "__main__":
    sys.exit(main())
