"""Length-prefixed JSON frames over a Unix socket, with file descriptors alongside.

A :class:`Channel` delivers only JSON of bounded size. Nothing is unpickled, and a frame that is too
long or not a JSON object raises :class:`BrokenProtocol` before more is read.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

HEADER = struct.Struct("!I")
MAX_FDS = 16


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """No complete frame arrived in time."""


class BrokenProtocol(Exception):
    """The other side sent something that is not a valid frame."""


class Channel:
    """One end of a socket pair.

    ``max_bytes`` bounds received frames, not sent ones.
    """

    def __init__(self, sock: socket.socket, *, max_bytes: int, max_fds: int = MAX_FDS) -> None:
        self._sock = sock
        self._max_fds = max_fds
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._fds: list[int] = []
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self.busy_s = 0.0
        """Seconds of polling before it sleeps: a process that slept answers later, and less regularly."""
        self.has_greeted = False
        """Whether the other side's hello was received."""

    @classmethod
    def from_fd(cls, fd: int, *, max_bytes: int, max_fds: int = MAX_FDS) -> Channel:
        """Wrap an inherited file descriptor and keep it from being inherited further."""
        sock = socket.socket(fileno=fd)
        sock.set_inheritable(False)
        return cls(sock, max_bytes=max_bytes, max_fds=max_fds)

    def fileno(self) -> int:
        """Return the descriptor, for ``select``."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close this end."""
        self._sock.close()

    def send(self, message: dict[str, Any], fds: Sequence[int] = (), timeout_s: float | None = None) -> None:
        """Send one object.

        Raise :class:`ChannelClosed` if the other side is gone, and :class:`ChannelTimeout` if it does
        not read.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        body = json.dumps(message, separators=(",", ":")).encode()
        data = memoryview(HEADER.pack(len(body)) + body)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        while data:
            self._wait([], [self._sock], deadline)
            try:
                sent = self._sock.sendmsg([data], ancillary, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            data, ancillary = data[sent:], []

    def take_fds(self) -> list[int]:
        """Return the descriptors that came with the frames read so far, once."""
        fds, self._fds = self._fds, []
        return fds

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the next object.

        Raise :class:`ChannelTimeout`, :class:`ChannelClosed` or :class:`BrokenProtocol`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._fill_to(HEADER.size, deadline)
        length = HEADER.unpack_from(self._buffer)[0]
        if length > self._max_bytes:
            raise BrokenProtocol(f"a frame of {length} bytes; {self._max_bytes} are allowed")
        # The buffer is consumed only when the frame is complete: after a timeout reading restarts at the header.
        self._fill_to(HEADER.size + length, deadline)
        body = bytes(self._buffer[HEADER.size : HEADER.size + length])
        del self._buffer[: HEADER.size + length]
        return parse_object(body)

    def has_pending(self) -> bool:
        """Return whether anything unread has arrived. Raise :class:`ChannelClosed` at the end of the stream."""
        if self._buffer:
            return True
        try:
            if not self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                raise ChannelClosed("end of stream")
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        return True

    def _fill_to(self, count: int, deadline: float | None) -> None:
        while len(self._buffer) < count:
            self._fill(deadline)

    def _look_busily(self, deadline: float | None) -> bool:
        """Return whether something arrives while polling."""
        until = time.monotonic() + self.busy_s
        until = until if deadline is None else min(until, deadline)
        while time.monotonic() < until:
            if self._poll.poll(0):
                return True
        return False

    def _fill(self, deadline: float | None) -> None:
        if not self.busy_s or not self._look_busily(deadline):
            self._wait([self._sock], [], deadline)
        room = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
        try:
            data, ancillary, _flags, _address = self._sock.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                self._fds.extend(fds)
        self._check_fds()
        if not data:
            raise ChannelClosed("end of stream")
        self._buffer += data

    def _wait(
        self, readers: list[socket.socket], writers: list[socket.socket], deadline: float | None
    ) -> None:
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            ready = select.select(readers, writers, [], wait)
        except (OSError, ValueError) as error:
            raise ChannelClosed(str(error)) from error
        if not (ready[0] or ready[1]):
            raise ChannelTimeout

    def _check_fds(self) -> None:
        """Refuse unexpected descriptors: a flood of them would leave this process unable to open any."""
        if len(self._fds) > self._max_fds:
            for fd in self.take_fds():
                os.close(fd)
            raise BrokenProtocol("unexpected descriptors")


def parse_object(body: bytes) -> dict[str, Any]:
    """Read one JSON object. Raise :class:`BrokenProtocol` for anything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenProtocol("a frame that is not JSON") from error
    if not isinstance(value, dict):
        raise BrokenProtocol("a frame that is not a JSON object")
    return value
