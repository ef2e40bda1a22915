"""The harness's kernels on the processor: a stream is a list of things to do, and a thread once it is complete."""

from __future__ import annotations

import ctypes
import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from inside import FakeRecorder

from kernelcup_harness import graphs, masks
from kernelcup_harness.device_code import DIGEST_BYTES

PATIENCE_S = 20.0
HERE = threading.local()
"""The device of the contestant that is this thread."""


class FakeDevice:
    """Stands for ``DeviceCode``. What it enforces: nothing waits for a word unless a word was asked for, keys come
    with words, blocks are whole, and nothing that was queued behind a wait is done before the word."""

    def __init__(self) -> None:
        HERE.device = self
        self._queue: list[Callable[[], None]] | None = None
        self._word: tuple[int, int, int, int] | None = None
        self._key: int | None = None
        self._thread: threading.Thread | None = None
        self._absorbed: list[bytes] = []

    def toggle(self, buffer: torch.Tensor, key: int | None) -> None:
        """Cover or uncover; without a key by that of the word."""
        if buffer.numel() % 16:
            raise ValueError("blocks that are not whole")
        if key is None and self._queue is None:
            raise ValueError("no word is waited for that a key could come with")
        self.do(lambda: self._toggle(buffer, key))

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy bytes."""
        self.do(lambda: target.copy_(source))

    def wait_for(self, ready: int, go: int, key: int, number: int) -> None:
        """Queue what follows."""
        self.settle()
        self._queue, self._word = [], (ready, go, key, number)
        self._absorbed.clear()

    def make_room(self, nbytes: int) -> None:
        """There is some."""

    def absorb(self, source: torch.Tensor) -> None:
        """Take bytes into the commitment when it is their turn."""
        self.do(lambda: self._absorbed.append(bytes_of(source)))

    def tell(self, address: int, number: int, digest: int) -> None:
        """End the queue, and have a thread work it off."""
        if self._queue is None:
            raise ValueError("nothing was queued")
        self._thread = threading.Thread(target=self._work, args=(self._queue, address, number, digest))
        self._queue = None
        self._thread.start()

    def digest(self, parts: Iterable[torch.Tensor]) -> bytes:
        """Return what commits to these bytes."""
        return digest_of([bytes_of(part) for part in parts])

    def do(self, what: Callable[[], Any]) -> None:
        """Do something when it is its turn."""
        if self._queue is None:
            self.settle()
            what()
        else:
            self._queue.append(what)

    def settle(self) -> None:
        """Wait until all is done."""
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive()

    def _work(self, queue: list[Callable[[], None]], address: int, number: int, digest: int) -> None:
        assert self._word is not None
        ready, go, key, wanted = self._word
        word(ready).value = wanted
        until = time.monotonic() + PATIENCE_S
        while word(go).value != wanted and time.monotonic() < until:
            pass
        self._key = word(key).value

        def say_done() -> None:
            ctypes.memmove(digest, digest_of(self._absorbed), DIGEST_BYTES)
            self._absorbed.clear()
            word(address).value = number

        self._finish(queue, say_done)

    def _finish(self, queue: list[Callable[[], None]], say_done: Callable[[], None]) -> None:
        for what in queue:
            what()
        say_done()

    def _toggle(self, buffer: torch.Tensor, key: int | None) -> None:
        seed = self._key if key is None else key
        assert seed is not None
        stream = bytearray(hashlib.shake_128(seed.to_bytes(8, "big")).digest(buffer.numel()))
        buffer.view(torch.int64).bitwise_xor_(torch.frombuffer(stream, dtype=torch.int64))


class HastyDevice(FakeDevice):
    """Says that it is done before it has begun: what a forger does who wants to look quick."""

    def _finish(self, queue: list[Callable[[], None]], say_done: Callable[[], None]) -> None:
        say_done()
        # The judge looks within microseconds.
        threading.Event().wait(0.05)
        for what in queue:
            what()


def bytes_of(part: torch.Tensor) -> bytes:
    """Return the bytes of a tensor of bytes."""
    return bytes(part.numpy().tobytes())


def digest_of(parts: list[bytes]) -> bytes:
    """Return a digest of parts: which one is between contestant and judge."""
    return hashlib.blake2s(b"".join(parts), digest_size=DIGEST_BYTES).digest()


def word(address: int) -> ctypes.c_uint64:
    """Return the word at an address."""
    return ctypes.c_uint64.from_address(address)


class QueueingRecorder(FakeRecorder):
    """Replays when it is the replay's turn on the device of the contestant."""

    def record(self, calls: Any) -> graphs.Recording:
        """Record as the other does."""
        made = super().record(calls)
        return graphs.Recording(lambda: HERE.device.do(made.replay), made.values)


def mask_with(device: type[FakeDevice]) -> type[masks.Mask]:
    """Return a class of masks that have such devices."""

    class Made(masks.Mask):
        def __init__(self, *, gpu: bool) -> None:
            super().__init__(gpu=gpu)
            self.code = device()  # type: ignore[assignment]

    return Made
