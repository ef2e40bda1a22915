"""What the nodes of tests run: the real one, with a harness that says what tests want."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kernelcup.agent.agent import Agent
from kernelcup.agent.connection import Connection
from kernelcup.agent.harnesses import Harnesses
from kernelcup.agent.ray_node import RayNode
from kernelcup.client.transport import Client
from kernelcup.config.settings import Config
from kernelcup.launchers.local.launcher import LocalLauncher
from machine_bench import HARNESS

FOLDER = "KERNELCUP_TEST_BENCH"
"""The variable that names the folder through which tests drive the machines."""


class BenchNode(RayNode):
    """Its harness obeys files in the bench's folder."""

    def make(self, settings: Config, client: Client) -> Agent:
        """Return an agent whose harness is the bench's."""
        command = (sys.executable, "-c", HARNESS, os.environ[FOLDER])

        def launcher(package: Path) -> LocalLauncher:
            return LocalLauncher(
                runtime_dir=settings.runtime_dir, environ=os.environ, command=command, package=package
            )

        connection = Connection(client)
        harnesses = Harnesses(settings.data_dir / "harness", launcher, connection.fetch_harness)
        devices = {each.name: each for each in settings.devices_here}
        return Agent(connection, harnesses, devices, facts={})
