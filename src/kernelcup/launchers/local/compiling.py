"""Compile a submission on this machine without a device, in a child process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelcup.errors import BadReport, LaunchError, LaunchTimeout
from kernelcup.launchers.local.launcher import ENVIRONMENTS, child_environ
from kernelcup_harness.protocol import JobSpec, ProtocolError, dumps, from_json
from kernelcup_harness.protocol.compiled import Compiled

ARCHITECTURES = ("sm_90a", "sm_100a")
"""Hopper and Blackwell: what is compiled for where a task names no device that is known here."""
OF_DEVICES = {
    "T4": "sm_75",
    "A100": "sm_80",
    "A10": "sm_86",
    "A10G": "sm_86",
    "L4": "sm_89",
    "L40S": "sm_89",
    "H100": "sm_90a",
    "H200": "sm_90a",
    "B200": "sm_100a",
    "B300": "sm_103a",
}
COMPILE_FOR = "KERNELCUP_HARNESS_COMPILE_FOR"
"""The environment variable that names architectures to the emulated device, such as ``8.9;9.0a``."""
GRACE_S = 60.0
# `-P`: modules in the current directory must not replace those of the harness.
COMMAND = (sys.executable, "-P", "-m", "kernelcup_harness", "--die-with-parent", "-")


def architectures_of(devices: Sequence[str]) -> tuple[str, ...]:
    """Return what to compile for, by the names of devices such as ``L4`` or ``H200x2``."""
    words = (re.split(r"[^A-Z0-9]+|X\d+$", each.upper()) for each in devices)
    known = [OF_DEVICES[word] for each in words for word in each if word in OF_DEVICES]
    return tuple(dict.fromkeys(known)) or ARCHITECTURES


def compile_only(
    spec: JobSpec,
    *,
    environments: Path,
    listings: Sequence[str] = (),
    architectures: Sequence[str] = ARCHITECTURES,
    environ: Mapping[str, str] = os.environ,
) -> Compiled:
    """Return what compilers make of a submission in CUDA C++. Raise ``LaunchError``."""
    options = ["--compile", ",".join(architectures), "--listings", ",".join(listings)]
    try:
        done = subprocess.run(
            [*COMMAND, *options],
            input=dumps(spec).encode(),
            capture_output=True,
            env=child_environ({ENVIRONMENTS: str(environments), **environ}),
            timeout=spec.limits.import_s + GRACE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LaunchTimeout("the compiler did not end in time") from error
    except OSError as error:
        raise LaunchError(f"the harness cannot be started: {error}") from error
    try:
        found: Compiled = from_json(Compiled, json.loads(done.stdout.splitlines()[-1])["compiled"])
    except (IndexError, KeyError, TypeError, ValueError, ProtocolError, RecursionError) as error:
        log = done.stderr.decode("utf-8", "replace")[-2000:]
        raise BadReport(f"the harness ended with {done.returncode} and no answer: {log or error}") from error
    return found
