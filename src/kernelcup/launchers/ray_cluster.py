"""How a machine starts or joins a cluster: the command ``ray start`` with our settings and labels."""

from __future__ import annotations

import json
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kernelcup.domain import Device
from kernelcup.errors import ConfigError

NAMESPACE = "kernelcup"
RESOURCE = "kernelcup"
"""A node has one unit of it if it judges; its agent holds it."""
LABEL = "kernelcup.io/"
NAME = f"{LABEL}name"
CLASS = f"{LABEL}class"
ASKED_S = 15.0
"""How long the head is asked whether it takes a token."""
STORE_BYTES = 80_000_000
"""Ray's object store, about the least that it takes: jobs and reports travel without it."""
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray gives its workers a low priority, which jobs would inherit.
    "RAY_worker_niceness": "0",
    # Ray ends a worker when memory gets scarce, which would be the agent with all its jobs.
    "RAY_memory_monitor_refresh_ms": "0",
}


def environment_label(environment: str) -> str:
    """Return the label of the nodes that have an environment; labels hold at most 63 characters."""
    return f"{LABEL}environment-{environment[:32]}"


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for Ray: our settings, where the operator has none."""
    return {**SETTINGS, **environ, "RAY_AUTH_MODE": "token"}


def token_file(environ: Mapping[str, str]) -> Path:
    """Return where Ray looks for its token."""
    named = environ.get("RAY_AUTH_TOKEN_PATH")
    return Path(named) if named else Path(environ.get("HOME") or Path.home()) / ".ray" / "auth_token"


def check_token(environ: Mapping[str, str], *, make: bool) -> None:
    """Make sure that there is a token.

    Args:
        environ: The environment.
        make: Write a new one if there is none; else raise ``ConfigError``.
    """
    file = token_file(environ)
    if environ.get("RAY_AUTH_TOKEN") or (file.is_file() and file.stat().st_size):
        return
    if not make:
        raise ConfigError(
            f"{file}: no token of the cluster; copy the file from the machine where `kernelcup runner up` runs, "
            "with mode 600"
        )
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(secrets.token_hex(32))


def refusal(address: str, environ: Mapping[str, str]) -> str:
    """Return that a cluster does not take this machine's token, empty if it does or does not answer.

    Ray itself repeats it for half a minute, and ends with a traceback or without the reason.
    """
    ask = [str(Path(sys.executable).with_name("ray")), "health-check", f"--address={address}"]
    try:
        asked = subprocess.run(
            ask, env=environment(environ), capture_output=True, text=True, timeout=ASKED_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    source = "RAY_AUTH_TOKEN" if environ.get("RAY_AUTH_TOKEN") else token_file(environ)
    text = f"{source}: not the token of the cluster at {address}; copy the one of `kernelcup runner up`"
    return text if "InvalidAuthToken" in asked.stderr else ""


def command(
    devices: Iterable[Device],
    slot_gpus: Mapping[str, Sequence[str]],
    *,
    where: Sequence[str],
    name: str | None = None,
    host_class: str = "",
    environments: Iterable[str] = (),
    further: Sequence[str] = (),
) -> list[str]:
    """Return the command that starts this machine's part of a cluster and stays in the foreground.

    Args:
        devices: The devices that it judges on.
        slot_gpus: Their GPUs.
        where: ``--head`` with its port, or ``--address`` with the head's.
        name: The machine's name, by default its host's.
        host_class: What machines with equal hardware share; empty for no label.
        environments: The hashes of its environments.
        further: More options for ``ray start``.
    """
    labels = {NAME: name or socket.gethostname().partition(".")[0]}
    labels |= {CLASS: host_class} if host_class else {}
    labels |= {environment_label(each): "yes" for each in environments}
    for key, value in labels.items():
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value):
            raise ConfigError(f"{key}={value!r}: expected at most 63 letters, digits, dots, - and _")
    gpus = {gpu for groups in slot_gpus.values() for group in groups for gpu in group.split(",")}
    return [
        str(Path(sys.executable).with_name("ray")),
        "start",
        *where,
        "--block",
        "--num-cpus=0",
        f"--num-gpus={len(gpus)}",
        f"--resources={json.dumps({RESOURCE: 1} if list(devices) else {})}",
        f"--labels={','.join(f'{key}={value}' for key, value in labels.items())}",
        f"--object-store-memory={STORE_BYTES}",
        "--disable-usage-stats",
        *further,
    ]
