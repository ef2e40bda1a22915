"""Compile a submission on this machine without a device, in a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelcup.errors import BadReport, LaunchError, LaunchTimeout
from kernelcup.launchers.local.launcher import ENVIRONMENTS, child_environ
from kernelcup_harness.protocol import JobSpec, ProtocolError, dumps, from_json
from kernelcup_harness.protocol.compiled import Compiled

ARCHITECTURES = ("sm_90a", "sm_100a")
"""Hopper and Blackwell."""
GRACE_S = 60.0
# `-P`: modules in the current directory must not replace those of the harness.
COMMAND = (sys.executable, "-P", "-m", "kernelcup_harness", "--die-with-parent", "-")


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
