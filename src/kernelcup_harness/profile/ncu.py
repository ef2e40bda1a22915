"""NVIDIA's ``ncu``: its command line, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import OPEN_COUNTERS, ProfileOptions

PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
USUAL = ("/usr/", "/opt/nvidia/")
"""Folders that a sandbox with a GPU shows anyway."""
REPORT, LOG, RAW = "profile.ncu-rep", "ncu.log", "ncu-raw.csv"
PAGES = {
    RAW: ("--page", "raw", "--csv", "--print-units", "base"),
    "ncu-details.csv": ("--page", "details", "--csv"),
    "ncu-details.txt": ("--page", "details"),
}
"""What is made of a report, by file name."""
VERSION = "version.txt"
NO_NCU = "ncu is not installed on the machine that profiled it; it is part of NVIDIA's CUDA toolkit"
FORBIDDEN = (
    "the machine does not let the harness read the GPU's counters; its operator can open them: "
    f"{OPEN_COUNTERS}, then reboot"
)
MOST_BYTES = {REPORT: 512 << 20, RAW: 64 << 20}
"""Largest content that is read, by name; of other files :data:`MOST_OTHER`."""
MOST_OTHER = 16 << 20
ERRORS = re.compile(r"^==(?:ERROR|WARNING)== (.+)$", re.MULTILINE)


def program() -> str:
    """Return the path of ncu, empty without one."""
    return shutil.which("ncu") or next((each for each in PLACES if Path(each).exists()), "")


def flags(options: ProfileOptions) -> list[str]:
    """Return ncu's options. Clocks stay as for ranking; each kernel of a graph is profiled by itself."""
    found = ["--profile-from-start", "off", "--graph-profiling", "node", "--clock-control", "none"]
    found += ["--target-processes", "all", "--set", options.sections.value]
    if options.kernel:
        found += ["--kernel-name", f"regex:{options.kernel}"]
    if options.launches:
        found += ["--launch-count", str(options.launches)]
    return found


@dataclass(slots=True)
class Ncu:
    """Profiles what a process does between its marks; the result comes back in memory.

    Args:
        options: What to profile.
        path: Of ncu.
    """

    options: ProfileOptions
    path: str
    fd: int = field(default_factory=lambda: os.memfd_create("kernelcup-profile"))

    @property
    def visible(self) -> tuple[str, ...]:
        """The folder of ncu, if it lies at an unusual place."""
        folder = str(Path(self.path).resolve().parent)
        return () if f"{folder}/".startswith(USUAL) else (folder,)

    @property
    def fds(self) -> Sequence[int]:
        """The file for the result."""
        return (self.fd,)

    def around(self, argv: Sequence[str], parent: str) -> list[str]:
        """Return the command that runs ``argv`` under ncu."""
        given = [str(self.fd), parent, self.path, json.dumps(flags(self.options))]
        return processes.python_argv("kernelcup_harness.profile.ncu", "main", *given, *argv)

    def result(self) -> dict[str, bytes]:
        """Return the files that it has left, by name; none if it has not come to its end. Closes the descriptor.

        A submission that is profiled may have written anything there.
        """
        with open(self.fd, "rb") as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    found = {each.filename: each for each in archive.infolist() if may_be_read(each)}
                    return {name: archive.read(each) for name, each in found.items()}
            except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError):
                return {}


def may_be_read(member: zipfile.ZipInfo) -> bool:
    """Return whether a member of a result is one of ours, stored as we store it, and not too large."""
    is_ours = member.filename in {REPORT, LOG, VERSION, *PAGES} and member.compress_type == zipfile.ZIP_STORED
    return is_ours and member.file_size <= MOST_BYTES.get(member.filename, MOST_OTHER)


def trouble(log: str) -> str:
    """Return why ncu has profiled nothing, by its log; empty if the log does not say."""
    if "ERR_NVGPUCTRPERM" in log:
        return FORBIDDEN
    return "; ".join(ERRORS.findall(log)[:3])[:600]


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
