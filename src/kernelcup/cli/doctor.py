"""``kernelcup doctor``: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
import platform as machine
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

import typer

from kernelcup.cli.options import ConfigOption, JsonOption

State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    name: str
    state: State
    text: str
    needed: bool = False
    """Without it nothing can be judged here."""


def doctor(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Look at this machine and say what is missing for judging, and how to get it.

    Exit code 0 if submissions can be judged here, 4 otherwise.
    """
    from kernelcup.cli import exits

    findings = [look(config) for look in LOOKS]
    if as_json:
        body = [{"name": f.name, "state": f.state, "text": f.text, "needed": f.needed} for f in findings]
        typer.echo(json.dumps({"findings": body}))
    else:
        for finding in findings:
            mark = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN "}[finding.state]
            typer.echo(f"{mark}  {finding.name:12} {finding.text}")
    fit = all(finding.state == "ok" for finding in findings if finding.needed)
    raise typer.Exit(exits.OK if fit else exits.CONFIG_ERROR)


def python(_config: object) -> Finding:
    """Python itself."""
    return Finding("python", "ok", f"{machine.python_version()} at {sys.executable}", needed=True)


def torch(_config: object) -> Finding:
    """PyTorch: the judge needs it. Its version is read without importing it."""
    try:
        return Finding("torch", "ok", metadata.version("torch"), needed=True)
    except metadata.PackageNotFoundError:
        text = "judging needs it: pip install torch==2.13.0 (then kernelcup[runner])"
        return Finding("torch", "missing", text, needed=True)


def triton(_config: object) -> Finding:
    """Triton: for submissions that use it."""
    try:
        return Finding("triton", "ok", metadata.version("triton"))
    except metadata.PackageNotFoundError:
        return Finding("triton", "missing", "submissions that import it will fail: pip install triton")


def gpu(config: object) -> Finding:
    """The devices on which this machine can judge."""
    from kernelcup.cli import platform
    from kernelcup_harness.protocol import Backend

    devices = platform.load_config(config).devices  # type: ignore[arg-type]
    real = [f"{device.name} x{device.slots}" for device in devices if device.backend is Backend.CUDA]
    if real:
        return Finding("gpu", "ok", ", ".join(real))
    return Finding(
        "gpu", "missing", "no NVIDIA GPU: the emulated device tells right from wrong, its times mean nothing"
    )


def compilers(_config: object) -> Finding:
    """What inline C++ and CUDA are built with."""
    absent = [name for name in ("g++", "ninja", "nvcc") if shutil.which(name) is None]
    if not absent:
        return Finding("compilers", "ok", "g++, ninja, nvcc")
    text = f"no {', '.join(absent)}: inline C++ or CUDA cannot be built (apt-get install g++ ninja-build; CUDA toolkit)"
    return Finding("compilers", "missing", text)


def bubblewrap(_config: object) -> Finding:
    """The sandbox."""
    path = shutil.which("bwrap")
    if path is None:
        return Finding(
            "bubblewrap", "missing", "user code is kept apart by process only: apt-get install bubblewrap"
        )
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return Finding("bubblewrap", "ok", f"{version} (not used yet: sandboxing comes with a later version)")


def database(config: object) -> Finding:
    """The database, its schema and the room for it."""
    from kernelcup.cli import platform
    from kernelcup.errors import KernelCupError
    from kernelcup.storage.schema import current_revision

    try:
        settings = platform.load_config(config)  # type: ignore[arg-type]
        with platform.open_database(settings) as db:
            revision = current_revision(db)
    except KernelCupError as error:
        return Finding("database", "broken", str(error), needed=True)
    return Finding("database", "ok", f"{settings.database_url} (schema {revision})", needed=True)


def disk(config: object) -> Finding:
    """Free space where data lies."""
    from kernelcup.cli import platform

    folder = platform.load_config(config).data_dir  # type: ignore[arg-type]
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    state: State = "ok" if free > 1 and os.access(folder, os.W_OK) else "broken"
    return Finding("disk", state, f"{free:.0f} GB free at {folder}", needed=True)


LOOKS: tuple[Callable[[object], Finding], ...] = (
    python,
    torch,
    triton,
    gpu,
    compilers,
    bubblewrap,
    database,
    disk,
)
