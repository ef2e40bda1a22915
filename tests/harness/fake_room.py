"""A window, a contestant's hands and a timer's engine without a GPU: memory of the host at the window's addresses.

What the fakes enforce: only attached regions are looked at; nobody writes what was attached for reading; the timer has
nothing of a contestant but the bytes that it exported; descriptors are real ones, and closed.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from fake_device import FakeDevice, FakeSampler
from inside import SECRET, contestants_of, judged_beside, serve
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from kernelcup_harness.clocks.replay import session, timed_replays, witnessed
from kernelcup_harness.clocks.witness import Witness
from kernelcup_harness.device.nvidia.driver import DriverError
from kernelcup_harness.protocol import JobSpec, RanKernel
from kernelcup_harness.timer import main
from kernelcup_harness.window import addresses
from kernelcup_harness.window.allocator import Heap
from kernelcup_harness.window.graph_data import Rebuilt
from kernelcup_harness.window.messages import NO_KERNEL, Access, SharedRegion
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire import values as wire
from kernelcup_harness.wire.channel import Channel, ChannelClosed

EMPTY_NS, CALL_NS = 4_000, 9_000
RAN = RanKernel(
    name="_Z3fooPf",
    image="00112233",
    launches=2,
    grid=[4, 1, 1],
    block=[256, 1, 1],
    registers=32,
    shared_bytes=1024,
    local_bytes=0,
)
"""What each capture ran, as the fake timer says."""
NODES = 1
"""Nodes of each graph."""
TOTAL_BYTES = 1 << 30
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
READ_WRITE, SHARED_AT = 3, 0x01 | 0x10


class FakeClock:
    """A clock that goes on only when a task's code says that it took some time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


CLOCK = FakeClock()
"""The clock of tests with slow tasks, which their code can reach."""


class FakeWindow:
    """Host memory at the addresses of the window, and what a contestant has exported."""

    device = "cpu"

    def __init__(self) -> None:
        self.regions: dict[int, int] = {}
        self.graphs: dict[str, list[Callable[[], None]]] = {}
        self.log: list[Any] = []
        self.turns = 0
        """Calls since all loads of their side were there."""
        self.gpu = FakeDevice()
        """What the device does by its own timer."""

    def total_bytes(self) -> int:
        return TOTAL_BYTES

    def create(self, address: int, nbytes: int) -> int:
        if nbytes % addresses.GRANULE or address % addresses.GRANULE:
            raise ValueError("no whole granules")
        # The heap is large and hardly used: pages cost memory only once they are touched.
        fd = os.memfd_create("region", os.MFD_CLOEXEC)
        os.ftruncate(fd, nbytes)
        self.close_region(address)
        assert _LIBC.mmap(address, nbytes, READ_WRITE, SHARED_AT, fd, 0) == address
        self.regions[address] = nbytes
        return fd

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        if not any(a <= address and address + nbytes <= a + size for a, size in self.regions.items()):
            raise ValueError(f"{address:#x} is not mapped")
        return torch.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), dtype=torch.uint8)

    def settle(self) -> None:
        """Nothing is asynchronous here, but the device works."""
        self.gpu.settle()

    def close_region(self, address: int) -> None:
        if address in self.regions:
            _LIBC.munmap(address, self.regions.pop(address))

    def close(self) -> None:
        for address in list(self.regions):
            self.close_region(address)


class FakeHands:
    """Captures by keeping the calls: a replay makes them again, and leaves the answer where it was the first time."""

    def __init__(self, shared: FakeWindow) -> None:
        self._shared = shared
        self._attached: dict[int, int] = {}
        self._heap: Heap | None = None
        self._captured: list[Callable[[], None]] = []
        self.capturing = False

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        if not any(a <= address and address + nbytes <= a + size for a, size in self._attached.items()):
            raise ValueError(f"{address:#x} was not attached here")
        return self._shared.view(address, nbytes)

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        assert os.fstat(fd).st_size == nbytes
        self._attached[address] = nbytes

    def use_heap(self, address: int, nbytes: int) -> None:
        self._heap = Heap(address, nbytes)

    def in_use(self) -> AbstractContextManager[Any]:
        return Allocating(self)

    def is_capturing(self) -> bool:
        return self.capturing

    def capture(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        for call in calls:
            call()
        values = []
        self.capturing = True
        try:
            for call in calls:
                kept = self._kept(call())
                values.append(kept)
                self._captured.append(self.replay_of(call, kept))
        except NotReplayed:
            raise
        except Exception as error:
            raise NotReplayed(WhyNot.WAITS) from error
        finally:
            self.capturing = False
        return values

    def replay_of(self, call: Callable[[], Any], kept: torch.Tensor) -> Callable[[], None]:
        def replay() -> None:
            again = call()
            if again.data_ptr() != kept.data_ptr():
                kept.copy_(again)

        return replay

    def live(self) -> tuple[list[list[int]], int]:
        assert self._heap is not None
        return [list(each) for each in self._heap._used.items()], self._heap.reach

    def export(self) -> tuple[bytes, WhyNot | None]:
        name = f"graphs-{len(self._shared.graphs)}"
        self._shared.graphs[name] = self._captured
        return json.dumps({"name": name}).encode(), None

    def _kept(self, value: torch.Tensor) -> torch.Tensor:
        """Give a tensor memory in the heap, unless it has some in the window."""
        if not value.numel() or lies_in_window(value):
            return value
        assert self._heap is not None
        nbytes = wire.span_of(value) * value.element_size()
        memory = self.view(self._heap.take(nbytes), nbytes).view(value.dtype)
        return torch.as_strided(memory, value.shape, value.stride()).copy_(value)


class Allocating(TorchDispatchMode):
    """What PyTorch's allocator is on a GPU: results of operations get memory in the heap."""

    def __init__(self, hands: FakeHands) -> None:
        super().__init__()
        self._hands = hands

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {each.untyped_storage().data_ptr() for each in tensors_in((args, kwargs))}
        return tree_map_only(
            torch.Tensor,
            lambda each: each if each.untyped_storage().data_ptr() in given else self._hands._kept(each),
            made,
        )


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return all tensors of an operation's arguments."""
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


def lies_in_window(value: torch.Tensor) -> bool:
    """Return whether a tensor begins in the window."""
    return addresses.WINDOW <= value.data_ptr() < addresses.WINDOW + addresses.WINDOW_BYTES


class FakeEngine:
    """Times by a constant; notices who writes what was attached for reading."""

    foreign: tuple[str, ...] = ()
    is_rivals = False
    """Whether it is in the rival's timer."""
    lasts_ns = CALL_NS
    longer_in_series_ns = 0

    def __init__(self, shared: FakeWindow) -> None:
        self._shared = shared
        self._read_only: list[tuple[int, int]] = []
        self._sets: list[list[Callable[[], None]]] = []
        self._cuts: set[int] = set()
        """Which of them are cut calls."""

    def attach(self, region: SharedRegion, fd: int) -> None:
        assert os.fstat(fd).st_size == region.bytes
        self._shared.log.append((region.access.value, region.address))
        if region.access is Access.READ:
            self._read_only.append((region.address, region.bytes))

    def load(self, data: bytes, cut: int | None = None) -> Rebuilt:
        graphs = self._shared.graphs[json.loads(data)["name"]]
        if cut is not None:
            return self.cut(graphs[cut])
        self._shared.log.append(("load", self.is_rivals))
        self._sets.append(graphs)
        count = len(self._sets[-1])
        names, ran = ["a priority of kernel f"], [RAN]
        return Rebuilt(
            list(range(count)), [NODES] * count, self.shapes(count), names, list(self.foreign), ran
        )

    def shapes(self, count: int) -> list[str]:
        """Say that all graphs do the same."""
        return ["same"] * count

    def cut(self, graph: Callable[[], None]) -> Rebuilt:
        """Cut a call into two steps: a copy, and a kernel that does all the work."""
        self._cuts.add(len(self._sets))
        self._sets.append([graph, lambda: None])
        return Rebuilt([0, 1], [2, 1], ["copy", "kernel"], ran=[RAN], steps=[NO_KERNEL, 0])

    def fire(self, group: int, place: int) -> int | None:
        if group in self._cuts:
            return self.fire_cut(group, place)
        self._shared.log.append(("fire", group, place))
        self._run(group, place)
        return EMPTY_NS + self.lasts_ns

    def fire_cut(self, group: int, place: int) -> int:
        """Run a cut call, or the copy before its kernel, which takes a third of the time."""
        self._shared.log.append(("cut", place))
        self._run(group, place)
        return EMPTY_NS + self.lasts_ns // (3 if place else 1)

    def launch(self, calls: Sequence[tuple[int, int]]) -> None:
        if len(calls) == 1:
            self.watched(*calls[0])
            return
        self._shared.log.append(("series", len(calls)))
        for group, place in calls:
            self._sets[group][place]()
            self._shared.gpu.now_ns += self.lasts_ns + self.longer_in_series_ns

    def profile(self, call: tuple[int, int]) -> None:
        self._shared.log.append(("profile", *call))
        self._run(*call)

    def watched(self, group: int, place: int) -> None:
        """Make one call, which keeps the device busy."""
        self._shared.log.append(("launch", group, place))
        self._run(group, place)
        self._shared.gpu.work(self.shows_ns(group))

    def shows_ns(self, _group: int) -> int:
        """Return how long the device is busy with a call."""
        return self.lasts_ns

    def _run(self, group: int, place: int) -> None:
        before = [self._shared.view(*each).clone() for each in self._read_only]
        self._sets[group][place]()
        for was, each in zip(before, self._read_only, strict=True):
            if not torch.equal(was, self._shared.view(*each)):
                raise DriverError("cuStreamSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")

    def empty(self) -> int | None:
        self._shared.log.append(("empty",))
        return EMPTY_NS

    def check(self) -> None:
        self._shared.log.append(("check",))


@contextmanager
def fake_window() -> Iterator[FakeWindow]:
    """A window of small regions that is gone afterwards."""
    shared = FakeWindow()
    with patch.object(addresses, "GRANULE", 1 << 17):
        try:
            yield shared
        finally:
            shared.close()


def judged_in_room(
    spec: JobSpec,
    folder: Path,
    *,
    hands: type[FakeHands] = FakeHands,
    engine: type[FakeEngine] | None = FakeEngine,
    rival: type[FakeHands] = FakeHands,
    sampler: type[FakeSampler] | None = None,
) -> tuple[list[dict[str, Any]], FakeWindow]:
    """Run a job whose calls are replayed; return the judge's events, and what happened in the window.

    With a sampler there is a witness.
    """
    with (
        fake_window() as shared,
        patch.object(session, "GpuMapping", lambda _part: shared),
        patch.object(witnessed, "OwnWork", lambda: shared.gpu),
        patch.object(timed_replays, "time", shared.gpu),
    ):
        members: dict[str, Callable[[Channel], object]] = {
            role: partial(serve, hands=(rival if role == "rival" else hands)(shared))
            for role in contestants_of(spec)
        }
        for role in ("timer", "rival-timer") if spec.rival is not None else ("timer",):
            made = engine and engine(shared)
            if made is not None:
                made.is_rivals = role != "timer"
            members[role] = partial(be_timer, made)
        if sampler is not None:
            members["witness"] = lambda channel: Witness(channel, lambda: [sampler(shared.gpu)]).serve()
        return judged_beside(spec, folder, members, SECRET), shared


def be_timer(engine: FakeEngine | None, channel: Channel) -> None:
    """Be a timer until the judge is gone; its end is closed when it ends, as a process's is."""
    try:
        with suppress(ChannelClosed):
            main.Timer(channel, engine, "" if engine is not None else "no device").serve()
    finally:
        channel._sock.shutdown(socket.SHUT_RDWR)
