"""A real Ray cluster on this machine, each of whose nodes is started by ``kernelcup runner``."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelcup.errors import LaunchError
from kernelcup.launchers.base import MachineReading
from kernelcup.launchers.ray.launcher import RayLauncher

START_S = 120.0
KERNELCUP = Path(sys.executable).with_name("kernelcup")
QUICK = {
    # A lost node, and a lost head, are noticed within seconds rather than a minute.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}


@dataclass(kw_only=True)
class ClusterNode:
    """A node's processes."""

    name: str
    home: Path
    process: subprocess.Popen[bytes]
    options: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """What `ray start` says."""
        return self.home / "log"

    def is_up(self) -> bool:
        """Whether its `ray start` and the node itself live."""
        return self.process.poll() is None and "raylet" in self.pids()

    def pids(self) -> dict[str, int]:
        """The processes of the node by the names of their programs."""
        found = {}
        for child in children(self.process.pid):
            with contextlib.suppress(OSError):
                found[Path(f"/proc/{child}/comm").read_text().strip()] = child
        return found

    def kill(self, *programs: str) -> None:
        """Kill programs of the node with SIGKILL; the rest is left to itself."""
        running = self.pids()
        for program in programs:
            os.kill(running[program], signal.SIGKILL)

    def pool(self) -> int:
        """The process of the node's pool."""
        found = children(self.pids()["raylet"])
        named = [each for each in found if b"Pool" in Path(f"/proc/{each}/cmdline").read_bytes()]
        return named[0]


@dataclass(kw_only=True)
class RayCluster:
    """A head and other nodes. Every node has its own folder, configuration and locks.

    Args:
        folder: A folder with a short path, since sockets lie below it.
        devices: For each node, its slots by device; the first one is the head.
        environ: Additional variables for all.
    """

    folder: Path
    devices: Mapping[str, Mapping[str, int]]
    environ: Mapping[str, str] = field(default_factory=dict)
    nodes: dict[str, ClusterNode] = field(default_factory=dict)
    port: int = 0

    @property
    def address(self) -> str:
        """The head's."""
        return f"127.0.0.1:{self.port}"

    @property
    def head(self) -> str:
        """The name of the first node."""
        return next(iter(self.devices))

    def start(self) -> None:
        """Start all nodes, each of which needs seconds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        for name in self.devices:
            self.start_node(name)

    def start_node(self, name: str, *, known_as: str | None = None) -> ClusterNode:
        """Start a node; a killed one comes back with a fresh identity."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        devices = "".join(
            f'[[devices]]\nname = "{device}"\nbackend = "emulated"\nslots = {slots}\n'
            for device, slots in self.devices[name].items()
        )
        devices = devices or '[[devices]]\nname = "none"\nbackend = "emulated"\nlauncher = "ray"\n'
        (home / "kernelcup.toml").write_text("[local]\nwarm = 1\n" + devices)
        options: tuple[str, ...] = ("join", self.address)
        if name == self.head:
            options = ("up", f"--port={self.port}", f"--temp-dir={self.folder / 's'}")
        command = [str(KERNELCUP), "runner", *options, f"--name={known_as or name}"]
        with (home / "log").open("ab") as log:
            offset = log.tell()
            process = subprocess.Popen(command, env=self._environ(home), stdout=log, stderr=log)
        self.nodes[name] = ClusterNode(name=name, home=home, process=process)
        self._wait_for(self.nodes[name], offset)
        return self.nodes[name]

    def launcher(self, *, kind: type[RayLauncher] = RayLauncher, **options: Any) -> RayLauncher:
        """Return a launcher of this cluster; its bridge inherits this process's environment."""
        os.environ.update(self._variables())
        return kind(self.address, bundles=self.folder / "bundles", **options)

    def wait(self, launcher: RayLauncher, *names: str, limit_s: float = START_S) -> list[MachineReading]:
        """Wait until these nodes, by default all that judge, take jobs."""
        judging = [name for name, devices in self.devices.items() if devices]
        wanted, until = set(names or judging), time.monotonic() + limit_s
        while True:
            found = readings(launcher)
            if wanted <= {each.name for each in found if not each.trouble}:
                return found
            if time.monotonic() > until:
                raise TimeoutError(f"{found}\n{self._logs()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End all processes of all nodes."""
        for node in self.nodes.values():
            node.process.terminate()
        for node in self.nodes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(20)
        for pid in self._left():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """Processes that name this cluster's folder in their environment."""
        wanted = f"KERNELCUP_TEST_CLUSTER={self.folder}".encode()
        found = []
        for each in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted in each.read_bytes().split(b"\0") and int(each.parent.name) != os.getpid():
                    found.append(int(each.parent.name))
        return found

    def _variables(self) -> dict[str, str]:
        return {**QUICK, "RAY_AUTH_TOKEN_PATH": str(self.folder / "token"), **self.environ}

    def _environ(self, home: Path) -> dict[str, str]:
        return {
            **os.environ,
            **self._variables(),
            "KERNELCUP_HOME": str(home),
            "KERNELCUP_RUNTIME": str(home / "run"),
            "KERNELCUP_TEST_CLUSTER": str(self.folder),
        }

    def _wait_for(self, node: ClusterNode, offset: int) -> None:
        """Two nodes that start at the same moment on one machine would take each other's sockets."""
        until = time.monotonic() + START_S
        while b"Ray runtime started" not in node.log.read_bytes()[offset:]:
            if time.monotonic() > until or node.process.poll() is not None:
                raise TimeoutError(self._logs())
            time.sleep(0.1)

    def _logs(self) -> str:
        return "\n".join(each.log.read_text(errors="replace")[-2000:] for each in self.nodes.values())


def readings(launcher: RayLauncher) -> list[MachineReading]:
    """Return the cluster's machines, none while it does not answer."""
    try:
        return launcher.probe([])
    except LaunchError:
        return []


def free_port() -> int:
    """Return a port that is free, below those that Ray gives to its workers or the kernel to clients."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def children(pid: int) -> list[int]:
    """Return the children of a process, through all of its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found
