"""Slots of a machine's devices, shared with every other KernelCup process on it.

Two runs on one GPU would spoil each other's times. A slot is a set of locks: one for each of its GPUs, or one for the
slot itself if it has none; an emulated device, whose times mean nothing, needs none. A GPU's lock is that of its device
node: all users share it, and only a user who may use the GPU can hold it. Other locks are files of one user.
A lock is held by an open file, which the harness inherits: if the dispatcher dies, the slot stays locked until the
harness has ended. The kernel serves those who wait for a lock in the order in which they came.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from kernelcup.domain import Device, grouped
from kernelcup.errors import LaunchCancelled, LaunchError, UnfitDevice
from kernelcup_harness.protocol import Backend

RETRY_S = 0.1
"""How often a wait looks whether it was cancelled."""
DEV, DRIVER = Path("/dev"), Path("/proc/driver/nvidia/gpus")
_ELSEWHERE = "; KERNELCUP_RUNTIME names another folder"


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A slot that is ours until it is released."""

    gpus: tuple[str, ...]
    """The GPUs that the run may use, as in ``CUDA_VISIBLE_DEVICES``; empty for no restriction."""
    files: tuple[int, ...]

    def release(self) -> None:
        """Release the slot; it is free once the harness's copies of the files are closed too."""
        for file in self.files:
            os.close(file)


class _Wait:
    """A wait for the locks of a slot, one after the other."""

    def __init__(self, number: int, slot: Slot, arrived: SimpleQueue[_Wait]) -> None:
        self.number, self.slot = number, slot
        self._arrived = arrived
        self._guard = threading.Lock()
        self._is_over = False
        threading.Thread(target=self._stand_in_line, name="slot", daemon=True).start()

    def _stand_in_line(self) -> None:
        for file in self.slot.files:
            if not self._is_over:
                fcntl.flock(file, fcntl.LOCK_EX)
        with self._guard:
            if self._is_over:
                self.slot.release()
            else:
                self._is_over = True
                self._arrived.put(self)

    def leave(self) -> None:
        """Give back what it has so far; what comes later is given back at once."""
        with self._guard:
            if not self._is_over:
                self._is_over = True
                for file in self.slot.files:
                    fcntl.flock(file, fcntl.LOCK_UN)


class Slots:
    """Takes and counts slots.

    Args:
        directory: Where the lock files are; one for all processes of this user.
        gpus: For each device, the GPUs of each of its slots, as in ``CUDA_VISIBLE_DEVICES``.
        say: Is told once for each wait that other processes hold the device.
    """

    def __init__(
        self,
        directory: Path,
        gpus: Mapping[str, Sequence[str]],
        *,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._directory = directory
        self._gpus = gpus
        self._say = say
        self.left_out: frozenset[str] = frozenset()
        """No slot with one of these GPUs is handed out."""

    def free(self, device: Device) -> int:
        """Return how many slots are free at this moment."""
        slots = [*self._free(device)]
        for slot in slots:
            slot.release()
        return len(slots)

    def take(self, device: Device, *, cancelled: threading.Event) -> Slot:
        """Wait for a slot: of those who wait for the same one, who came first has it first.

        Raises:
            LaunchCancelled: ``cancelled`` was set.
            UnfitDevice: No slot can become free, since each has a GPU that is out of service.
        """
        waits: dict[int, _Wait] = {}
        arrived: SimpleQueue[_Wait] = SimpleQueue()
        try:
            while not cancelled.is_set():
                usable = [number for number, gpus in enumerate(self.visible(device)) if self._may_use(gpus)]
                if not usable:
                    raise UnfitDevice(f"every slot of {device.name} is out of service")
                if not waits:
                    if slot := self.try_any(device):
                        return slot
                    self._say(busy_text(device))
                for number in usable:
                    if number not in waits:
                        waits[number] = _Wait(number, self._opened(device, number), arrived)
                with suppress(Empty):
                    first = arrived.get(timeout=RETRY_S)
                    del waits[first.number]
                    if self._may_use(first.slot.gpus):
                        return first.slot
                    first.slot.release()
            raise LaunchCancelled("cancelled while waiting for a free slot")
        finally:
            for each in waits.values():
                each.leave()
            while not arrived.empty():
                arrived.get().slot.release()

    def visible(self, device: Device) -> list[tuple[str, ...]]:
        """Return the GPUs of each slot of a device, empty for no restriction."""
        return [self._visible(device, number) for number in range(device.slots)]

    def try_gpu(self, gpu: str) -> Slot | None:
        """Take one GPU without waiting, even if it is left out; return None if it is in use."""
        return _held(Slot(gpus=(gpu,), files=(self._file(f"gpu-{gpu}"),)))

    def try_any(self, device: Device) -> Slot | None:
        """Take a slot of a device without waiting; return None if none is free."""
        return next(self._free(device), None)

    def gpus(self, device: Device) -> tuple[str, ...]:
        """Return the GPUs of all slots of a device, each once."""
        return tuple(dict.fromkeys(gpu for gpus in self.visible(device) for gpu in gpus))

    def _free(self, device: Device) -> Iterator[Slot]:
        """Take one slot after the other that is free."""
        for number, gpus in enumerate(self.visible(device)):
            if self._may_use(gpus) and (slot := _held(self._opened(device, number))):
                yield slot

    def _may_use(self, gpus: tuple[str, ...]) -> bool:
        return self.left_out.isdisjoint(gpus)

    def _opened(self, device: Device, number: int) -> Slot:
        """Return a slot with its locks, in the order in which all take them; none of them is held."""
        gpus = self._visible(device, number)
        own = [] if device.backend is Backend.EMULATED else [f"device-{device.name}-{number}"]
        names = [f"gpu-{gpu}" for gpu in sorted(gpus)] or own
        return Slot(gpus=gpus, files=tuple(map(self._file, names)))

    def _visible(self, device: Device, number: int) -> tuple[str, ...]:
        groups = self._gpus.get(device.name)
        if groups is None:  # an agent is given H200x2 and has H200
            groups = grouped(self._gpus.get(device.model, ()), device.gpus)
        return tuple(groups[number].split(",")) if number < len(groups) else ()

    def _file(self, name: str) -> int:
        """Open what has the lock of this name; a GPU that has no node to open is locked among one user's processes."""
        if node := _node(name):
            with suppress(OSError):
                return os.open(node, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        path = _private(self._directory) / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.lock"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise LaunchError(f"{path}: no lock can be had: {error.strerror}{_ELSEWHERE}") from error


def _held(slot: Slot) -> Slot | None:
    """Take all locks of a slot without waiting; return None if one is in use."""
    try:
        for file in slot.files:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        slot.release()
        return None
    return slot


def _node(name: str) -> Path | None:
    """Return the device node of the GPU that a lock is named after, whose number counts in the order of the bus."""
    index = name.removeprefix("gpu-")
    if not index.isdecimal():
        return None
    found = sorted(DRIVER.glob("*/information"))[int(index) :]
    minor = re.search(r"Device Minor:\s*(\d+)", found[0].read_text(encoding="utf-8")) if found else None
    return DEV / f"nvidia{minor[1] if minor else index}"


def busy_text(device: Device) -> str:
    """Return that a device is waited for."""
    return f"waiting for {device.name}: another KernelCup process is using it"


def _private(directory: Path) -> Path:
    """Create the directory, and make sure that no other user owns it: it may be below /tmp."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        text = f"{directory}: no folder for locks can be made: {error.strerror}{_ELSEWHERE}"
        raise LaunchError(text) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise LaunchError(f"{directory} belongs to another user{_ELSEWHERE}")
    return directory
