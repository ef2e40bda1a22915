"""The pool of the conformance bench: the real one, with a harness that says what tests want."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from kernelcup.agent.ray_pool import RayPool
from kernelcup.config.settings import Config
from kernelcup.launchers import outcomes
from kernelcup.launchers.local import launcher as local
from kernelcup.launchers.local import pipes
from kernelcup.launchers.local.launcher import LocalLauncher
from machine_bench import HARNESS

FOLDER = "KERNELCUP_TEST_BENCH"
"""The variable that names the folder through which tests drive the machines."""
AHEAD = "ahead_s"
OTHER_HARNESS = "other-harness"
LARGEST = "largest-report"


class BenchPool(RayPool):
    """Its clocks, its harness's identity and its limits are files in the bench's folder."""

    def __init__(self) -> None:
        self._bench = Path(os.environ[FOLDER])
        ahead = self._bench / AHEAD
        pipes.time = SimpleNamespace(monotonic=lambda: time.monotonic() + float(said(ahead) or 0))
        own, other = local.harness_hash, self._bench / OTHER_HARNESS
        local.harness_hash = lambda package: said(other) or own(package)
        super().__init__()

    def make(self, settings: Config, package: Path) -> LocalLauncher:
        """Return a launcher whose harness is the bench's."""
        command = (sys.executable, "-c", HARNESS, str(self._bench))
        return LocalLauncher(
            runtime_dir=settings.runtime_dir, environ=os.environ, command=command, package=package
        )

    def _collect(self) -> None:
        outcomes.LARGEST_REPORT_BYTES = int(said(self._bench / LARGEST) or 64 << 20)
        super()._collect()


def said(file: Path) -> str:
    """Return what a file says, nothing if it is not there."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
