"""Read the events and the report that a harness writes, until it has ended."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernelcup.clean_text import load_json
from kernelcup.errors import BadReport
from kernelcup.launchers.base import Event
from kernelcup.launchers.local.pipes import Tail, read_lines
from kernelcup.launchers.local.warm_runners import kill_group
from kernelcup_harness.protocol import ProtocolError, RunReport, from_json

EXIT_S = 10.0
"""How long the harness may take to end once it has closed its output."""
OTHER_LINES = ({"ready": True}, {"built": True})
"""A harness was still starting when it got its job, or it only compiled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What a harness wrote."""

    report: RunReport | None
    code: int
    log: str
    """The end of its standard error."""


def read_output(
    child: subprocess.Popen[bytes],
    *,
    until: float,
    cancelled: threading.Event,
    on_event: Callable[[Event], None],
) -> Output:
    """Follow a harness to its end; its process group is gone when this returns.

    Args:
        until: When it must have ended, by ``time.monotonic``.

    Raises:
        BadReport: It wrote something else than events and a report.
        LaunchTimeout, LaunchCancelled: It did not end in time, or ``cancelled`` was set.
    """
    assert child.stdout is not None
    assert child.stderr is not None
    tail = Tail()
    lines = read_lines(child.stdout, child.stderr, tail, until=until, cancelled=cancelled)
    report = _last_report(lines, on_event)
    code = _end(child, tail)
    return Output(report=report, code=code, log=tail.text)


def _last_report(lines: Iterator[bytes], on_event: Callable[[Event], None]) -> RunReport | None:
    for line in lines:
        if not line.strip():
            continue
        try:
            message = load_json(line)
        except (ValueError, RecursionError) as error:
            raise BadReport(f"the harness wrote a line that is not JSON: {line[:200]!r}") from error
        if message in OTHER_LINES:
            continue
        if isinstance(message, dict) and "report" in message:
            return _decoded(message["report"])
        if not isinstance(message, dict) or "event" not in message:
            raise BadReport(f"the harness wrote neither an event nor a report: {line[:200]!r}")
        on_event(message)
    return None


def _decoded(body: object) -> RunReport:
    try:
        return from_json(RunReport, body)
    except (ProtocolError, RecursionError) as error:
        raise BadReport(f"the report cannot be read: {error}") from error


def _end(child: subprocess.Popen[bytes], tail: Tail) -> int:
    """Wait briefly for the harness to end by itself, then end its group; return its exit code."""
    until = time.monotonic() + EXIT_S
    # Do not reap it before the group is killed: its number could be reused by then.
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            break
        time.sleep(0.005)
    kill_group(child)
    code = child.wait()
    assert child.stderr is not None
    tail.drain(child.stderr)
    return code
