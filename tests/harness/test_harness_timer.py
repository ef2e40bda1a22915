"""The timer: what it answers, what it refuses by name, and the order of its calls to the driver."""

from __future__ import annotations

import ctypes
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from test_harness_replay import FakeDriver, capture, launch

from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine, TimerRefused
from kernelcup_harness.device.nvidia import engine
from kernelcup_harness.device.nvidia.driver import Driver, DriverError
from kernelcup_harness.timer import main
from kernelcup_harness.window import addresses, graph_data
from kernelcup_harness.window.messages import (
    Access,
    Check,
    Checked,
    Fire,
    Fired,
    FireEmpty,
    Launch,
    Launched,
    LoadCapture,
    Loaded,
    Refused,
    SharedRegion,
)
from kernelcup_harness.window.reasons import ClockTrouble, Failure, NotRebuilt, StampForged
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import M, Message, unpack

LASTS_NS, CLOCK_NS = 20_000, 4_000


class TimingDriver(FakeDriver):
    """A device with a timer: kernels of the gun and graphs do what they do there, when the stream is waited for.

    What it enforces: a graph runs behind the kernel that holds it, and nothing is looked at before it is there.
    """

    def __init__(self, *, slow_ns: int = 0, launch_ns: int = 0) -> None:
        super().__init__()
        self.now_ns = 10**15
        self.host_ns = 0
        self.slow_ns = slow_ns
        self.launch_ns = launch_ns
        self.order: list[str] = []
        self.graphs: dict[int, int] = {}
        self._kernels: dict[int, str] = {}
        self._memory: list[Any] = []

    def _cuModuleGetFunction(self, made: Any, _module: Any, name: bytes) -> int:  # noqa: N802
        self._handles += 1
        made._obj.value = self._handles
        self._kernels[self._handles] = name.decode()
        return 0

    def _cuMemAddressReserve(self, there: Any, *_: Any) -> int:  # noqa: N802
        there._obj.value = addresses.WINDOW
        self.order.append("reserve")
        return 0

    def _cuMemHostAlloc(self, page: Any, nbytes: Any, _flags: int) -> int:  # noqa: N802
        memory = ctypes.create_string_buffer(nbytes.value)
        self._memory.append(memory)
        page._obj.value = ctypes.addressof(memory)
        return 0

    def _cuDeviceGetAttribute(self, found: Any, *_: Any) -> int:  # noqa: N802
        found._obj.value = 300 << 20
        return 0

    def _cuMemAlloc_v2(self, made: Any, nbytes: Any) -> int:  # noqa: N802
        self.order.append(f"sweep of {nbytes.value >> 20} MiB")
        made._obj.value = 1 << 40
        return 0

    def _cuGraphLaunch(self, graph: Any, _stream: Any) -> int:  # noqa: N802
        self.order.append("graph")
        self.host_ns += self.launch_ns
        self.now_ns += self.graphs.get(graph.value, LASTS_NS)
        return 0

    def _cuLaunchKernel(self, kernel: Any, *arguments: Any) -> int:  # noqa: N802
        name, pointers = self._kernels[kernel.value], arguments[8]
        if name == "sweep":
            self.order.append(name)
            self.now_ns += 100_000 + self.slow_ns
            return 0
        words = [ctypes.c_uint64.from_address(pointers[at]).value for at in range(2 if name == "hold" else 1)]
        self.order.append(name)
        if name == "hold":
            ctypes.c_uint64.from_address(words[1]).value = self.now_ns
            self.now_ns = max(self.now_ns, words[0])
        else:
            self.now_ns += CLOCK_NS
            ctypes.c_uint64.from_address(words[0]).value = self.now_ns
        return 0


def made(**options: Any) -> tuple[engine.GpuEngine, TimingDriver]:
    device = TimingDriver(**options)
    return engine.GpuEngine(Driver(device), lambda: device.host_ns), device


def test_addresses_are_taken_before_any_memory_and_all_is_ready_without_a_job() -> None:
    _, device = made()

    assert device.order == ["reserve", "sweep of 601 MiB"]
    assert device.calls.index("cuDevicePrimaryCtxRetain") < device.calls.index("cuMemAddressReserve")
    assert "cuGraphInstantiateWithFlags" in device.calls


def test_a_call_is_swept_held_launched_and_stamped_in_this_order() -> None:
    found, device = made()
    found._sets.append([12345])
    device.order.clear()

    assert found.fire(0, 0) == LASTS_NS + CLOCK_NS
    assert device.order == ["stamp", "sweep", "hold", "graph", "stamp"]
    # Lines that an earlier call has marked to stay are swept as well.
    assert device.calls.count("cuCtxResetPersistingL2Cache") == 1


def test_a_call_that_the_witness_measures_has_nothing_of_the_clock_beside_it() -> None:
    found, device = made()
    found._sets.append([12345])
    device.order.clear()
    device.calls.clear()
    found.launch([(0, 0), (0, 0)])

    assert device.order == ["graph", "graph"]
    assert device.calls == ["cuGraphLaunch", "cuGraphLaunch", "cuStreamSynchronize"]


def test_an_empty_graph_takes_what_the_clock_takes() -> None:
    found, device = made()
    device.graphs[found._nothing] = 0

    assert found.empty() == CLOCK_NS


@pytest.mark.parametrize(
    ("options", "lates"),
    [
        pytest.param({"slow_ns": 500_000}, 1, id="the device is not ready at the start"),
        pytest.param({"launch_ns": 1_000_000}, 2, id="the host queues the graph after it"),
    ],
)
def test_a_late_call_has_no_time_and_the_next_start_is_further_ahead(
    options: dict[str, int], lates: int
) -> None:
    found, device = made(**options)
    found._sets.append([12345])
    device.order.clear()

    for _ in range(lates):
        assert found.fire(0, 0) is None
    assert found.fire(0, 0) == LASTS_NS + CLOCK_NS
    # The graph has run and may have seen its input: the caller decides whether it runs again.
    assert device.order.count("graph") == lates + 1


def test_a_graph_that_the_host_cannot_queue_in_time_is_timed_all_the_same() -> None:
    found, _ = made(launch_ns=10**9)
    found._sets.append([12345])
    times = [found.fire(0, 0) for _ in range(6)]

    assert times == [None] * 5 + [LASTS_NS + CLOCK_NS]


def test_a_device_that_is_never_ready_is_trouble() -> None:
    found, _ = made(slow_ns=10**10)
    found._sets.append([12345])

    lates = [found.fire(0, 0) for _ in range(8)]
    with pytest.raises(ClockTrouble, match="never ready"):
        found.fire(0, 0)
    assert lates == [None] * 8


def test_a_launch_that_ends_before_its_start_is_forged() -> None:
    found, device = made()
    found._sets.append([12345])
    # The kernel that waits for the start is told to go by the one that it holds.
    device.graphs[12345] = -CLOCK_NS - 1

    with pytest.raises(StampForged, match="before its start"):
        found.fire(0, 0)


def test_a_stamp_that_changes_after_it_was_read_is_forged() -> None:
    found, _ = made()
    found._sets.append([12345])
    found.fire(0, 0)
    gun = found._gun
    place = next(iter(gun._taken))
    gun._words[place] += 1

    with pytest.raises(StampForged, match="written again"):
        found.check()


def test_a_capture_is_rebuilt_with_the_regions_that_were_attached() -> None:
    found, _device = made()
    data = graph_data.encode(capture(launch((0, (addresses.WINDOW + 64).to_bytes(8, "little")))))
    assert found.load(data).foreign == ["byte 0 of the parameters of kernel f"]

    fd = os.open("/dev/null", os.O_RDONLY)
    found.attach(SharedRegion(address=addresses.WINDOW, bytes=2 << 20, access=Access.WRITE), fd)
    os.close(fd)
    again = found.load(data)
    assert (len(again.executables), again.dropped, again.foreign) == (1, [], [])


LATE = 2
"""A place whose calls are never ready in time."""


class Plain:
    def __init__(self) -> None:
        self.raises: Exception | None = None
        self.log: list[Any] = []
        self.empties = 0
        self.lates: set[int] = set()

    def attach(self, region: SharedRegion, fd: int) -> None:
        self.log.append((region, os.fstat(fd).st_size))

    def load(self, data: bytes, cut: int | None = None) -> graph_data.Rebuilt:
        self.try_to()
        self.log.append(data)
        return graph_data.Rebuilt(
            [1, 2, 3, 4], [5, 6, 7, 8], ["same"] * 4, ["x" * 10] * 100, ["byte 0"] * 100
        )

    def fire(self, group: int, place: int) -> int | None:
        self.try_to()
        self.log.append((group, place))
        return None if place == LATE else 1_000 * group + place

    def launch(self, calls: Sequence[tuple[int, int]]) -> None:
        self.try_to()
        self.log.append(list(calls))

    def profile(self, call: tuple[int, int]) -> None:
        self.log.append(("profile", *call))

    def empty(self) -> int | None:
        self.empties += 1
        return None if self.empties in self.lates else 7

    def check(self) -> None:
        self.try_to()

    def try_to(self) -> None:
        if self.raises is not None:
            raise self.raises


@pytest.fixture
def running() -> Iterator[tuple[TimerLine, Plain, list[int]]]:
    """A timer in a thread, the judge's line to it, and its exit code once it has ended."""
    ours, theirs = socket.socketpair()
    plain, codes = Plain(), list[int]()
    line = TimerLine(Channel(ours, max_bytes=1 << 20, max_fds=0))
    other = Channel(theirs, max_bytes=1 << 20)

    def serve() -> None:
        codes.append(main.Timer(other, plain).serve())
        # A process that ends closes its end.
        theirs.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=serve)
    thread.start()
    assert line.greet(30.0) == ""
    yield line, plain, codes
    ours.close()
    thread.join()
    theirs.close()


def ask(line: TimerLine, request: Message, expected: type[M], fds: Sequence[int] = ()) -> M:
    return line.ask(request, expected, timeout_s=30.0, fds=fds)


def loaded(line: TimerLine, data: bytes = b"graphs") -> Loaded:
    fd = os.memfd_create("capture")
    os.write(fd, data + b"more")
    reply = ask(line, LoadCapture(bytes=len(data)), Loaded, [fd])
    os.close(fd)
    return reply


def test_the_timer_reads_so_many_bytes_and_no_more(running: Any) -> None:
    line, plain, _ = running
    reply = loaded(line)

    assert plain.log == [b"graphs"]
    assert reply.nodes == [5, 6, 7, 8]
    assert (len(reply.dropped), len(reply.foreign), reply.shapes) == (64, 64, ["same"] * 4)


def test_places_are_fired_by_capture_and_number(running: Any) -> None:
    line, plain, _ = running
    loaded(line)
    loaded(line)

    assert ask(line, Fire(capture=1, place=3), Fired).ns == [1_003]
    ask(line, Launch(capture=1, places=[3, 0, 3]), Launched)
    assert plain.log[2:] == [(1, 3), [(1, 3), (1, 0), (1, 3)]]


def test_a_call_that_was_not_ready_has_no_time_and_is_not_made_again(running: Any) -> None:
    line, plain, _ = running
    loaded(line)

    assert ask(line, Fire(capture=0, place=LATE), Fired).ns == []
    assert plain.log[1:] == [(0, LATE)]


def test_empty_graphs_that_were_not_ready_are_timed_again_for_a_while(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two late ones in a row once had a matmul ranked by the wall clock."""
    line, plain, _ = running
    plain.lates = {1, 3, 4, 5, 6}
    assert ask(line, FireEmpty(repeat=2), Fired).ns == [7, 7]
    assert plain.empties == 7
    assert ask(line, FireEmpty(repeat=2), Fired).ns == [7, 7]
    assert plain.empties == 9
    monkeypatch.setattr(main, "EMPTY_S", 0.0)
    assert ask(line, FireEmpty(repeat=2), Fired).ns == []


def test_an_empty_graph_is_not_timed_once_anything_is_loaded(running: Any) -> None:
    line, plain, codes = running
    loaded(line)
    with pytest.raises(TimerRefused, match="before anything is loaded") as refused:
        ask(line, FireEmpty(), Fired)

    assert (refused.value.name, plain.empties, codes) == (Failure.BAD_REQUEST, 0, [])


REGION = {"address": addresses.WINDOW, "bytes": 1, "access": "rw"}
STRANGE: list[dict[str, Any]] = [
    *({}, {"type": "what"}, {"type": "fire", "place": 0}),
    *({"type": "fire", "capture": 0, "place": each} for each in (4, -1, True)),
    *({"type": "fire", "capture": 1, "place": 0}, {"type": "fire", "capture": 0, "place": 0, "repeat": 2}),
    *({"type": "launch", "capture": 0, "places": each} for each in ([0, 4], [0] * 5_000)),
    {"type": "launch", "capture": 1, "places": [0]},
    *({"type": "fire_empty", "repeat": each} for each in (0, 10**9)),
    *({"type": "attach", "regions": each} for each in ([REGION], [REGION] * 5)),
    *({"type": "attach", "regions": [{**REGION, **each}]} for each in ({"address": 0}, {"access": "all"})),
    *({"type": "load_capture", "bytes": each} for each in (1 << 62, 1)),
]


@pytest.mark.parametrize("frame", STRANGE)
def test_a_request_that_makes_no_sense_is_refused_and_the_next_is_answered(
    running: Any, frame: dict[str, Any]
) -> None:
    line, _, codes = running
    loaded(line)
    refused = unpack(Refused, line.reply(frame, timeout_s=30.0))

    assert refused.name is Failure.BAD_REQUEST
    assert ask(line, Fire(capture=0, place=0), Fired).ns == [0]
    assert not codes


@pytest.mark.parametrize(
    ("error", "name", "ends"),
    [
        (graph_data.BadGraph("capture.images: a list is due"), Failure.BAD_GRAPH, False),
        (NotRebuilt("a copy of memory outside of the window"), Failure.NOT_REBUILT, False),
        (DriverError("cuModuleLoadData", 200, "CUDA_ERROR_INVALID_IMAGE"), Failure.NOT_REBUILT, False),
        (DriverError("cuModuleLoadData", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"), Failure.DEVICE_FAULT, True),
    ],
)
def test_what_cannot_be_loaded_is_refused_by_name(
    running: Any, error: Exception, name: Failure, ends: bool
) -> None:
    line, plain, codes = running
    plain.raises = error
    with pytest.raises(TimerRefused, match=str(error)[:20]) as refused:
        loaded(line)

    assert refused.value.name is name
    if ends:
        with pytest.raises(TimerFailed):
            ask(line, Check(), Checked)
        assert codes == [main.FAULTED]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (DriverError("cuStreamSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"), Failure.DEVICE_FAULT),
        (DriverError("cuGraphLaunch", 1, "CUDA_ERROR_INVALID_VALUE"), Failure.DEVICE_FAULT),
        (ClockTrouble("the device was never ready"), Failure.CLOCK),
        (StampForged("an end stamp changed"), Failure.FORGED),
    ],
)
def test_a_fault_while_something_runs_is_told_and_ends_the_timer(
    running: Any, error: Exception, name: Failure
) -> None:
    line, plain, codes = running
    loaded(line)
    plain.raises = error
    with pytest.raises(TimerRefused) as refused:
        ask(line, Fire(capture=0, place=0), Fired)

    assert refused.value.name is name
    with pytest.raises(TimerFailed):
        ask(line, FireEmpty(), Fired)
    assert codes == [main.FAULTED]


def test_a_timer_without_a_device_says_so_and_refuses() -> None:
    ours, theirs = socket.socketpair()
    other = Channel(theirs, max_bytes=1 << 20)
    thread = threading.Thread(target=main.Timer(other, None, "no libcuda").serve)
    thread.start()
    line = TimerLine(Channel(ours, max_bytes=1 << 20, max_fds=0))

    assert line.greet(30.0) == "no libcuda"
    with pytest.raises(TimerRefused) as refused:
        ask(line, FireEmpty(), Fired)
    assert refused.value.name is Failure.NO_WINDOW
    ours.close()
    thread.join()
    theirs.close()


def test_descriptors_are_closed_whatever_becomes_of_a_request(running: Any) -> None:
    line, _, _ = running
    chance = random.Random(7)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(chance.randint(0, 4))]
        region = {"address": addresses.WINDOW, "bytes": 4096, "access": "rw"}
        frames = [
            {"type": "attach", "regions": [region] * chance.randint(0, 3)},
            {"type": "load_capture", "bytes": 3},
            {"type": "fire", "capture": 0, "place": 0},
            {"type": "fire_empty"},
            {"type": "what"},
        ]
        line.reply(chance.choice(frames), timeout_s=30.0, fds=fds)
        for fd in fds:
            os.close(fd)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_timer_has_no_torch() -> None:
    code = "import sys, kernelcup_harness.timer_process; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
