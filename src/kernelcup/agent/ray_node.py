"""What a Ray node runs: the agent of its machine, in an actor that holds no GPU of Ray's."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from pathlib import Path
from typing import IO

from kernelcup import __version__
from kernelcup.agent.agent import Agent, agent_here
from kernelcup.client.transport import Client
from kernelcup.config.settings import Config
from kernelcup.errors import ConfigError

LOCK = "ray-node.lock"
KILLED_S = 10.0


class RayNode:
    """The agent of its node. It works until its process ends, or the service does not want it any more.

    Args:
        server: Address of the service.
        token: The machine's token.
        version: The service's version of KernelCup. Raise ``ConfigError`` if this machine has another one.
    """

    def __init__(self, server: str, token: str, version: str) -> None:
        if version != __version__:
            raise ConfigError(f"it has KernelCup {__version__}, and the server {version}")
        settings = Config.load(None, os.environ)
        self._version = version
        self._place = take_place(settings.runtime_dir)
        self._agent = self.make(settings, Client(server, token))
        self._ended, self._why = threading.Event(), ""
        threading.Thread(target=self._work, name="agent", daemon=True).start()

    def make(self, settings: Config, client: Client) -> Agent:
        """Return the machine's agent."""
        return agent_here(settings, client)

    def watch(self, version: str, wait_s: float) -> str:
        """Wait for so long; return why the agent has ended or has to, empty if it goes on."""
        if version != self._version:
            return f"the server has KernelCup {version} now"
        self._ended.wait(wait_s)
        return self._why

    def _work(self) -> None:
        try:
            self._agent.run(threading.Event())
        except Exception as error:
            self._why = str(error) or type(error).__name__
        self._ended.set()


def take_place(folder: Path) -> IO[str]:
    """Be the only node of this machine, and end what one that was lost has left: its agent, and so its jobs.

    The harness dies with the process that started it. Raise ``ConfigError`` if another node is alive.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / LOCK).open("a+")
    try:
        _take(file, folder)
    except ConfigError:
        file.close()
        raise
    file.truncate(0)
    file.write(f"{os.getpid()} {os.getppid()}\n")
    file.flush()
    return file


def _take(file: IO[str], folder: Path) -> None:
    until = time.monotonic() + KILLED_S
    while not _lock(file):
        file.seek(0)
        pid, node = map(int, (file.read().split() or ["0", "0"])[:2])
        if pid and parent_of(pid) == node:
            raise ConfigError(
                f"another Ray node on this machine, process {node}, judges with {folder}; "
                "stop it, or set KERNELCUP_RUNTIME and KERNELCUP_HOME for each"
            )
        if pid and parent_of(pid):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            raise ConfigError(f"{folder / LOCK} is held by another process")
        time.sleep(0.05)


def parent_of(pid: int) -> int:
    """Return a process's parent, 0 if it is gone or has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return 0 if state in "ZX" else int(parent)
    except (OSError, ValueError):
        return 0


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
