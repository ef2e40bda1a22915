"""The launcher for one's own machines: their agents are started by Ray, which also tells when a node is lost."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from kernelcup.app.machines.agent_launcher import AgentLauncher
from kernelcup.app.machines.machines import RAY
from kernelcup.domain import Device
from kernelcup.engine import blobs
from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError
from kernelcup.launchers import ray_cluster
from kernelcup.launchers.base import LauncherSettings, MachineReading

ADDRESS = "127.0.0.1:6379"
AGAIN_S = 5.0
KIND = "kernelcup.agent.ray_node:RayNode"
"""The class of what nodes run, as text: it stands above this module."""

logger = logging.getLogger(__name__)


class RayLauncher(AgentLauncher):
    """Gives jobs to agents, and has a process of its own keep one on each node.

    Args:
        address: The cluster's head, as ``HOST:PORT``. This machine has to be one of its nodes.
        server: The service's address, which the nodes have to reach.
        database: The service's database, for that process.
        labels: For each device, labels that its nodes must have.
        kind: The class of what nodes run; tests have one of their own.
    """

    launcher = RAY

    def __init__(
        self,
        db: Database,
        *,
        address: str,
        server: str,
        database: str,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        kind: str = KIND,
    ) -> None:
        super().__init__(db)
        self._order = {"address": address, "server": server, "database": database, "kind": kind}
        self._labels = labels or {}
        self._process: subprocess.Popen[str] | None = None
        self._start_at = 0.0

    def capacity(self, device: Device) -> int:
        """Return the free slots of all machines that are up."""
        self._keep_placing()
        return super().capacity(device)

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return the machines that are up."""
        self._keep_placing()
        return super().probe(devices)

    def close(self) -> None:
        """Leave the cluster; agents and calls go on."""
        super().close()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _needed(self, device: str, environment: str) -> set[str]:
        needed = dict(self._labels.get(device, {}))
        if environment:
            needed[ray_cluster.environment_label(environment)] = "yes"
        return {f"{key}={value}" for key, value in needed.items()}

    def _keep_placing(self) -> None:
        """Start the process that places agents, and again when it has ended."""
        if self._process is not None and self._process.poll() is not None:
            said, _ = self._process.communicate()
            logger.error("the Ray cluster at %s does not answer: %s", self._order["address"], said.strip())
            self._process, self._start_at = None, time.monotonic() + AGAIN_S
        if self._process is not None or time.monotonic() < self._start_at:
            return
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kernelcup.agent.ray_placer"],
            env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # whole logs of Ray
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._order) + "\n")
        self._process.stdin.flush()


def make(settings: LauncherSettings) -> RayLauncher:
    """Return the launcher of ``[launchers.ray]``. Raise ``ConfigError``."""
    options = dict(settings.launcher_options.get("ray", {}))
    address, labels = options.pop("address", ADDRESS), options.pop("labels", {})
    server = options.pop("server", settings.service_url)
    if options or not isinstance(address, str) or not isinstance(server, str) or not _are_labels(labels):
        raise ConfigError(
            '[launchers.ray]: expected address = "HOST:PORT", server = "http://HOST:PORT", and tables '
            'labels.DEVICE with NAME = "VALUE", at most'
        )
    if find_spec("ray") is None:
        raise ConfigError('the launcher ray needs Ray: pip install "ray[default]>=2.60"')
    files = blobs.opened(settings.files_url, settings.data_dir / "files")
    url = settings.database_url
    return RayLauncher(
        Database.open(url, files=files), address=address, server=server, database=url, labels=labels
    )


def _are_labels(labels: object) -> bool:
    return isinstance(labels, dict) and all(
        isinstance(some, dict) and all(isinstance(value, str) for value in some.values())
        for some in labels.values()
    )
