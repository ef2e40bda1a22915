"""Slots of a machine's devices, shared with every other KernelCup process on it.

Two runs on one GPU would spoil each other's times. A slot is a set of lock files: one for each of its GPUs, or
one for the slot itself if it has none. The lock is held by an open file, which the harness inherits: if the
dispatcher dies, the slot stays locked until the harness has ended.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelcup.domain import Device, grouped
from kernelcup.errors import LaunchCancelled, LaunchError, UnfitDevice

RETRY_S = 0.1
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


class Slots:
    """Takes and counts slots.

    Args:
        directory: Where the lock files are; one for all processes of this machine.
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
        self._left_out: frozenset[str] = frozenset()

    def leave_out(self, gpus: frozenset[str]) -> None:
        """Hand out no slot with one of these GPUs, until the next call."""
        self._left_out = gpus

    @property
    def left_out(self) -> frozenset[str]:
        """The GPUs that are not handed out."""
        return self._left_out

    def free(self, device: Device) -> int:
        """Return how many slots are free at this moment."""
        slots = [slot for number in range(device.slots) if (slot := self._try(device, number))]
        for slot in slots:
            slot.release()
        return len(slots)

    def take(self, device: Device, *, cancelled: threading.Event) -> Slot:
        """Wait for a slot.

        Raises:
            LaunchCancelled: ``cancelled`` was set.
            UnfitDevice: No slot can become free, since each has a GPU that is out of service.
        """
        is_told = False
        while not cancelled.is_set():
            if all(self._is_left_out(device, number) for number in range(device.slots)):
                raise UnfitDevice(f"every slot of {device.name} is out of service")
            for number in range(device.slots):
                if slot := self._try(device, number):
                    return slot
            if not is_told:
                self._say(busy_text(device))
                is_told = True
            cancelled.wait(RETRY_S)
        raise LaunchCancelled("cancelled while waiting for a free slot")

    def visible(self, device: Device) -> list[tuple[str, ...]]:
        """Return the GPUs of each slot of a device, empty for no restriction."""
        return [self._visible(device, number) for number in range(device.slots)]

    def try_gpu(self, gpu: str) -> Slot | None:
        """Take one GPU without waiting, even if it is left out; return None if it is in use."""
        return self._held([f"gpu-{gpu}"], (gpu,))

    def try_any(self, device: Device) -> Slot | None:
        """Take a slot of a device without waiting; return None if none is free."""
        tried = (self._try(device, number) for number in range(device.slots))
        return next((slot for slot in tried if slot is not None), None)

    def gpus(self, device: Device) -> tuple[str, ...]:
        """Return the GPUs of all slots of a device, each once."""
        every = (gpu for number in range(device.slots) for gpu in self._visible(device, number))
        return tuple(dict.fromkeys(every))

    def _try(self, device: Device, number: int) -> Slot | None:
        if self._is_left_out(device, number):
            return None
        gpus = self._visible(device, number)
        names = [f"gpu-{gpu}" for gpu in sorted(gpus)] or [f"device-{device.name}-{number}"]
        return self._held(names, gpus)

    def _is_left_out(self, device: Device, number: int) -> bool:
        return not self._left_out.isdisjoint(self._visible(device, number))

    def _held(self, names: Sequence[str], gpus: tuple[str, ...]) -> Slot | None:
        held: list[int] = []
        for name in names:
            file = self._lock(name)
            if file is None:
                Slot(gpus=(), files=tuple(held)).release()
                return None
            held.append(file)
        return Slot(gpus=gpus, files=tuple(held))

    def _visible(self, device: Device, number: int) -> tuple[str, ...]:
        groups = self._gpus.get(device.name)
        if groups is None:  # an agent is given H200x2 and has H200
            groups = grouped(self._gpus.get(device.model, ()), device.gpus)
        return tuple(groups[number].split(",")) if number < len(groups) else ()

    def _lock(self, name: str) -> int | None:
        path = _private(self._directory) / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.lock"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise LaunchError(f"{path}: no lock can be had: {error.strerror}{_ELSEWHERE}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        return file


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
