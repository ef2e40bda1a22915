"""``python -m kernelcup_harness [JOB.json] [--report FILE] [--events] [--die-with-parent] [--describe]
[--lint]``.

Reads a JobSpec as JSON from the file or, without one or with ``-``, from standard input. Writes JSON
lines to standard output: with ``--events`` the events as they come, and at the end
``{"report": {...}}``, or the bare report to FILE. Exit code 0 means that there is a report, whatever
its verdict; 2 that the job could not be read. ``--describe`` judges nothing and prints what this
machine is and which sandbox it has. ``--lint`` judges no submission but the task: null submissions are
handed to its checker, and the last line is ``{"lint": {...}}``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kernelcup_harness import lint_run, processes, sandbox, sysinfo
from kernelcup_harness.protocol import JobSpec, ProtocolError, check_spec, dumps, loads, to_json
from kernelcup_harness.runner import run_job


def main() -> int:
    """Run one job."""
    options = parse_options()
    if options.die_with_parent:
        processes.die_with_parent(os.getppid())
    if options.describe:
        emit({"machine": sysinfo.machine(), "sandbox": sandbox.describe()})
        return 0
    try:
        text = sys.stdin.read() if options.job == "-" else Path(options.job).read_text(encoding="utf-8")
        spec = loads(JobSpec, text)
        check_spec(spec)
    except (OSError, UnicodeDecodeError, ProtocolError) as error:
        sys.stderr.write(f"{options.job}: {error}\n")
        return 2
    # So that a job that is cancelled cleans up like one that has ended.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    if options.lint:
        emit({"lint": to_json(lint_run.run_lint(spec))})
        return 0
    report = run_job(spec, emit if options.events else ignore)
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
    parser.add_argument("--describe", action="store_true", help="say what this machine is, and judge nothing")
    parser.add_argument("--lint", action="store_true", help="try null submissions against the task")
    return parser.parse_args()


def emit(line: dict[str, Any]) -> None:
    """Write one JSON line."""
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def ignore(_line: dict[str, Any]) -> None:
    """Nobody watches."""


if __name__ == "__main__":
    sys.exit(main())
