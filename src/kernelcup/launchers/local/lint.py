"""Try a task with null submissions on this machine, in a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from kernelcup.domain import Device
from kernelcup.errors import BadReport, LaunchError, LaunchTimeout
from kernelcup.launchers.local.gpu_locks import Slots
from kernelcup.launchers.local.launcher import child_environ
from kernelcup_harness.protocol import Backend, JobSpec, ProtocolError, dumps, from_json
from kernelcup_harness.protocol.lint import LintReport

GRACE_S = 300.0
"""Extra time beyond the trial's own limit, for start and clean-up."""

# `-P`: modules in the current directory must not replace those of the harness.
COMMAND = (sys.executable, "-P", "-m", "kernelcup_harness", "--die-with-parent", "--lint", "-")


def run_lint(
    spec: JobSpec,
    device: Device,
    slots: Slots,
    *,
    environ: Mapping[str, str] = os.environ,
    command: Sequence[str] = COMMAND,
    nulls: bool = True,
    cancelled: threading.Event | None = None,
) -> LintReport:
    """Try the task of ``spec`` within ``limits.test_s``, on a slot of its own.

    Without ``nulls``, try only its inputs and its reference. Raise ``LaunchError``, or ``LaunchCancelled`` if
    ``cancelled`` is set while every slot is in use.
    """
    slot = slots.take(device, cancelled=cancelled or threading.Event())
    try:
        gpus = slot.gpus if spec.backend is Backend.CUDA else ()
        done = subprocess.run(
            [*command[:-1], *([] if nulls else ["--no-nulls"]), *command[-1:]],
            input=dumps(spec).encode(),
            capture_output=True,
            env=child_environ(environ, gpus=gpus),
            timeout=spec.limits.test_s + GRACE_S,
            pass_fds=slot.files,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LaunchTimeout("the harness did not end in time") from error
    except OSError as error:
        raise LaunchError(f"the harness cannot be started: {error}") from error
    finally:
        slot.release()
    return _report(done)


def _report(done: subprocess.CompletedProcess[bytes]) -> LintReport:
    lines = done.stdout.splitlines()
    try:
        return from_json(LintReport, json.loads(lines[-1])["lint"])
    except (IndexError, KeyError, TypeError, ValueError, ProtocolError, RecursionError) as error:
        log = done.stderr.decode("utf-8", "replace")[-2000:]
        text = f"the harness ended with {done.returncode} and no report: {log or error}"
        raise BadReport(text) from error
