"""Runs ncu around a process of a job, in that process's sandbox, and hands over what it has found."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

from kernelcup_harness.isolation import processes
from kernelcup_harness.profile.ncu import LOG, PAGES, REPORT, VERSION

IMPORT_S = 120.0
"""Time for one page of a report."""


def main(fd: str, parent: str, path: str, flags: str, *argv: str) -> None:
    """Run ``argv`` under ncu, then write report, pages and log as a zip file to ``fd``."""
    processes.die_with_parent(int(parent))
    folder = Path(os.environ["TMPDIR"])
    report, log = folder / REPORT, folder / LOG
    command = [path, *json.loads(flags), "--log-file", str(log), "--force-overwrite", "--export", str(report)]
    # The channels of the process are among the open descriptors.
    done = subprocess.run([*command, *argv], close_fds=False, check=False)
    with open(int(fd), "wb") as target, zipfile.ZipFile(target, "w") as archive:
        archive.writestr(VERSION, printed(path, "--version"))
        if log.exists():
            archive.write(log, LOG)
        if report.exists():
            for name, options in PAGES.items():
                archive.writestr(name, printed(path, "--import", str(report), *options))
            archive.write(report, REPORT)
    os._exit(done.returncode if done.returncode >= 0 else 1)


def printed(*argv: str) -> bytes:
    """Return what a command prints; nothing if it does not end in time."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=IMPORT_S, check=False
        )
    except (subprocess.TimeoutExpired, OSError):
        return b""
    return done.stdout
