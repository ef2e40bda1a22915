"""A real Ray cluster on this machine, each of whose nodes is started by ``kernelcup runner``, and its server."""

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

import httpx

from kernelcup.app.machines.ray_launcher import RayLauncher
from kernelcup.domain import Device
from kernelcup.engine import migrate
from kernelcup.engine.database import Database
from kernelcup.launchers.base import MachineReading
from kernelcup_harness.protocol import Backend

START_S = 120.0
UNITS = Path(__file__).parents[2] / "deploy/systemd"
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

    def agent(self) -> int:
        """The process of the node's agent."""
        found = children(self.pids()["raylet"])
        named = [each for each in found if b"Node" in Path(f"/proc/{each}/cmdline").read_bytes()]
        return named[0]


@dataclass(kw_only=True)
class RayCluster:
    """A server, a head and other nodes. Every node has its own folder, configuration and locks.

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
    server: str = ""
    """The server's address; it judges nothing."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """The server's."""

    @property
    def database(self) -> str:
        """The server's."""
        return f"sqlite:///{self.folder / 'kernelcup.db'}"

    @property
    def address(self) -> str:
        """The head's."""
        return f"127.0.0.1:{self.port}"

    @property
    def head(self) -> str:
        """The name of the first node."""
        return next(iter(self.devices))

    def start(self) -> None:
        """Start the server and all nodes, each of which needs seconds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with Database.open(self.database) as db:
            migrate.upgrade(db)
        self.port = free_port()
        self._serve(self.port - 1)
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
        _, *words = command_of("kernelcup-ray-node.service")
        words = [self.address if word.endswith(":6379") else word for word in words]
        if name == self.head:
            _, *words = command_of("kernelcup-ray-head.service")
            words += [f"--port={self.port}", f"--temp-dir={self.folder / 's'}"]
        command = [str(KERNELCUP), *words, f"--name={known_as or name}"]
        with (home / "log").open("ab") as log:
            offset = log.tell()
            process = subprocess.Popen(command, env=self._environ(home), stdout=log, stderr=log)
        self.nodes[name] = ClusterNode(name=name, home=home, process=process)
        self._wait_for(self.nodes[name], offset)
        return self.nodes[name]

    def launcher(
        self, db: Database, *, launcher: type[RayLauncher] = RayLauncher, **options: Any
    ) -> RayLauncher:
        """Return a launcher of this cluster; what places agents inherits this process's environment."""
        os.environ.update(self._variables())
        return launcher(db, address=self.address, server=self.server, database=self.database, **options)

    def readings(self, launcher: RayLauncher) -> list[MachineReading]:
        """Return the nodes that take jobs."""
        names = {device for devices in self.devices.values() for device in devices}
        return launcher.probe([Device(name=each, backend=Backend.EMULATED, slots=1) for each in names])

    def wait(self, launcher: RayLauncher, *names: str, limit_s: float = START_S) -> list[MachineReading]:
        """Wait until these nodes, by default all that judge, take jobs."""
        judging = [name for name, devices in self.devices.items() if devices]
        wanted, until = set(names or judging), time.monotonic() + limit_s
        while True:
            found = self.readings(launcher)
            if wanted <= {each.name for each in found}:
                return found
            if time.monotonic() > until:
                raise TimeoutError(f"{found}\n{self._logs()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End all processes of all nodes."""
        started = [*self.processes, *(node.process for node in self.nodes.values())]
        for process in started:
            process.terminate()
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for pid in self._left():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _serve(self, port: int) -> None:
        home = self.folder / "server"
        home.mkdir()
        names = sorted({device for slots in self.devices.values() for device in slots} | {"H100x2"})
        (home / "kernelcup.toml").write_text(
            "".join(
                f'[[devices]]\nname = "{each}"\nbackend = "emulated"\nlauncher = "agent"\n' for each in names
            )
        )
        environ = self._environ(home) | {"KERNELCUP_DATABASE": self.database, "KERNELCUP_SECRET": "x" * 64}
        with (home / "log").open("ab") as log:
            command = [str(KERNELCUP), "serve", "--no-judge", f"--port={port}"]
            self.processes.append(subprocess.Popen(command, env=environ, stdout=log, stderr=log))
        self.server, until = f"http://127.0.0.1:{port}", time.monotonic() + START_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{self.server}/livez")
                return
            if time.monotonic() > until:
                raise TimeoutError((home / "log").read_text())
            time.sleep(0.1)

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


def command_of(unit: str) -> list[str]:
    """Return what a systemd unit starts."""
    lines = (UNITS / unit).read_text().splitlines()
    (words,) = (line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart="))
    return words.split()


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
