"""The line to the bridge: its process is started when needed, and again when it has ended or fallen silent."""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from kernelcup.clean_text import load_json
from kernelcup.errors import LaunchError

FRESH_S = 5.0
"""The bridge tells the state of the cluster each second; an older one counts for nothing."""
SILENT_S = 30.0
"""A bridge that says nothing for so long hangs."""
AGAIN_S = 5.0
SEND_S = 1
CLOSE_S = 15.0

Message = dict[str, Any]

logger = logging.getLogger(__name__)


class Line:
    """Messages to and from a bridge, whatever becomes of it.

    Args:
        address: The cluster's head.
        pool: The class of the pools, as ``MODULE:CLASS``.
        take: Takes a message, in a thread of the line. A state of the cluster has ``first``: whether it is the
            first one of its bridge.
    """

    def __init__(self, address: str, pool: str, *, take: Callable[[Message], None]) -> None:
        self._address, self._pool, self._take = address, pool, take
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._end: Connection | None = None
        self._started_at = 0.0
        self._heard_at = 0.0
        self._told_at = 0.0
        self._trouble = ""
        self._is_closed = False

    def check(self) -> None:
        """Make sure that there is a bridge which knows the cluster's state. Raise ``LaunchError`` if not."""
        now = time.monotonic()
        if self._told_at and now - self._told_at < FRESH_S and self._is_up():
            return
        silent = now - max(self._heard_at, self._started_at) > SILENT_S
        if not self._is_closed and (silent or not self._is_up()) and now - self._started_at > AGAIN_S:
            self._start()
        raise LaunchError(f"the Ray cluster at {self._address} does not answer{self._trouble}")

    def send(self, message: Message) -> None:
        """Send a message. Raise ``LaunchError`` if there is no bridge."""
        try:
            if self._end is None:
                raise OSError("there is no bridge")
            self._end.send_bytes(json.dumps(message).encode())
        except OSError as error:
            self._stop()  # half a message may be under way
            raise LaunchError(f"the Ray cluster at {self._address} cannot be told: {error}") from error

    def close(self) -> None:
        """End the bridge once it has done what it was told."""
        self._is_closed = True
        if self._process is not None and self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)
        self._stop()

    def _is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._socket is not None and self._end is not None:
            with suppress(OSError):  # wakes the thread that listens
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._end.close()
        self._process = self._socket = self._end = None

    def _start(self) -> None:
        self._stop()
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))
        command = [sys.executable, "-P", "-m", "kernelcup.launchers.ray.bridge"]
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), self._address, self._pool],
                env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # whole logs of Ray; our own faults come as messages
                pass_fds=[theirs.fileno()],
            )
        self._started_at, self._told_at = time.monotonic(), 0.0
        self._socket, self._end = ours, Connection(os.dup(ours.fileno()))
        threading.Thread(target=self._listen, args=(self._end,), name="ray", daemon=True).start()

    def _listen(self, end: Connection) -> None:
        is_first = True
        with suppress(EOFError, OSError):
            while True:
                message = load_json(end.recv_bytes())
                if end is not self._end:
                    return
                self._heard_at = time.monotonic()
                if "fault" in message:
                    logger.error("the bridge to Ray: %s", message["fault"])
                    continue
                if "trouble" in message:
                    self._trouble = f": {message['trouble']}"
                    continue
                if "machines" in message:
                    message["first"], is_first = is_first, False
                self._take(message)
                if "machines" in message:
                    self._told_at, self._trouble = time.monotonic(), ""
