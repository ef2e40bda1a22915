"""Could a judge write inputs into memory that both processes have, so that a timed call must find a cold cache?

    python benchmarks/handed_in_probe.py [--size 2048] [--places 5 14 28] [--rounds 30]

An input that is uncovered by whoever computes with it lies in the cache then, so a handshake does not bound what
a kernel gains from that (attack V17, ``left_out``). Here the judge's process writes the inputs of so many places
of a ring itself, empties the cache, all in one go on an idle device, and only then gives the word. Asked is

- whether memory of one process can be mapped in another here (a file descriptor of the driver's),
- how much the wall clock from the word to the end jitters, less that of a process which does nothing,
- what a call takes by it, beside the claim with a cold cache and with a warm one,
- how long before the word another process, which looks at the inputs all the time, sees them, and whether the
  judge's own clock tells that somebody does.

Nothing of the harness does this yet. Prints one line of JSON for each number of places.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

DEVICE, PINNED, DESCRIPTOR, READ_AND_WRITE = 1, 1, 1, 3
SWEEP_BYTES = 256 << 20
HIDE_CYCLES = 1_000_000
"""Half a millisecond: all that the judge does on the device is queued by then."""
WORD, END = b"g", b"e"


class Location(ctypes.Structure):
    """``CUmemLocation``."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    """``CUmemAllocationProp``."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", Location),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class Access(ctypes.Structure):
    """``CUmemAccessDesc``."""

    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Shared:
    """Memory of the device that can be mapped in several processes.

    Args:
        nbytes: How much at least.
        fd: What another process has exported; None to make it.
    """

    def __init__(self, nbytes: int, fd: int | None = None) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        here = Location(DEVICE, 0)
        properties = Properties(PINNED, DESCRIPTOR, here, None)
        step, handle, self._address = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_uint64()
        self._do("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(properties), 0)
        self.nbytes = -(-nbytes // step.value) * step.value
        size = ctypes.c_size_t(self.nbytes)
        if fd is None:
            self._do("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), ctypes.c_uint64(0))
            made = ctypes.c_int()
            self._do(
                "cuMemExportToShareableHandle", ctypes.byref(made), handle, DESCRIPTOR, ctypes.c_uint64(0)
            )
            self.fd = made.value
        else:
            self.fd = fd
            self._do("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), DESCRIPTOR)
        nothing = ctypes.c_uint64(0)
        self._do(
            "cuMemAddressReserve", ctypes.byref(self._address), size, ctypes.c_size_t(0), nothing, nothing
        )
        self._do("cuMemMap", self._address, size, ctypes.c_size_t(0), handle, nothing)
        self._do(
            "cuMemSetAccess",
            self._address,
            size,
            ctypes.byref(Access(here, READ_AND_WRITE)),
            ctypes.c_size_t(1),
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return what PyTorch takes."""
        return {
            "shape": (self.nbytes // 4,),
            "typestr": "<f4",
            "data": (self._address.value, False),
            "version": 3,
        }

    def _do(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: the driver says {code}")


def places_of(shared: Shared, size: int, count: int) -> list[tuple[Any, Any]]:
    """Return the two matrices of each place."""
    import torch

    floats = torch.as_tensor(shared, device="cuda")[: 2 * count * size * size]
    return [tuple(pair) for pair in floats.view(count, 2, size, size)]  # type: ignore[misc]


def contestant(kind: str, fd: int, channel: socket.socket, size: int, count: int) -> None:
    """Make the calls of a ring at each word; ``nothing`` does not, ``peek`` looks at the inputs all the time."""
    import torch

    torch.zeros(1, device="cuda")
    places = places_of(Shared(2 * count * size * size * 4, fd), size, count)
    outs = [torch.empty_like(a) for a, _ in places]
    for (a, b), out in zip(places, outs, strict=True):
        torch.add(a, b, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if kind == "nothing":
            outs[0][0, :1].zero_()
        else:
            for (a, b), out in zip(places, outs, strict=True):
                torch.add(a, b, out=out)
    graph.replay()
    torch.cuda.synchronize()
    seen: list[tuple[int, float]] = []
    if kind == "peek":
        threading.Thread(target=peek, args=(places, seen), daemon=True).start()
    claims = claimed(places, outs) if kind == "calls" else {}
    channel.setblocking(False)
    say(channel, claims)
    while True:
        word = hear(channel)
        if word == END:
            return
        if kind != "peek":
            graph.replay()
            torch.cuda.synchronize()
        say(channel, {"seen": seen[-1:]})


def claimed(places: list[tuple[Any, Any]], outs: list[Any]) -> dict[str, float]:
    """Return what a call takes by events, with a cold cache and with its inputs in the cache."""
    import torch

    from kernelcup_harness.timing import CudaClock

    clock = CudaClock()
    cold = [
        clock.time(lambda n=n: torch.add(*places[n], out=outs[n]))[1]
        for n in range(len(places))
        for _ in range(8)
    ]
    clock._sweep = torch.empty(1, dtype=torch.uint8, device="cuda")
    warm = [clock.time(lambda: torch.add(*places[0], out=outs[0]))[1] for _ in range(40)]
    return {"cold_ns": statistics.median(cold), "warm_ns": statistics.median(warm)}


def peek(places: list[tuple[Any, Any]], seen: list[tuple[int, float]]) -> None:
    """Note when the last place got other contents."""
    import torch

    found, stream = torch.zeros(1).pin_memory(), torch.cuda.Stream()
    before = 0.0
    with torch.cuda.stream(stream):
        while True:
            found.copy_(places[-1][1].view(-1)[-1:], non_blocking=True)
            stream.synchronize()
            if found[0].item() != before:
                before = found[0].item()
                seen.append((time.perf_counter_ns(), before))


def say(channel: socket.socket, what: Any) -> None:
    """Send one line."""
    channel.setblocking(True)
    channel.sendall(json.dumps(what).encode() + b"\n")
    channel.setblocking(False)


def hear(channel: socket.socket) -> bytes:
    """Return one byte; look for it all the time."""
    while True:
        try:
            return channel.recv(1)
        except BlockingIOError:
            continue


class Other:
    """A process with the same memory."""

    def __init__(self, kind: str, shared: Shared, size: int, count: int) -> None:
        mine, theirs = socket.socketpair()
        command = [
            sys.executable,
            __file__,
            "--inside",
            kind,
            str(shared.fd),
            str(theirs.fileno()),
            str(size),
            str(count),
        ]
        self._process = subprocess.Popen(command, pass_fds=(shared.fd, theirs.fileno()))
        theirs.close()
        self._channel = mine
        self.claims = self.heard()

    def heard(self) -> Any:
        """Return the next line; look for it all the time."""
        text = b""
        while not text.endswith(b"\n"):
            part = self._channel.recv(4096, socket.MSG_DONTWAIT) if self._is_there() else b""
            text += part
        return json.loads(text)

    def _is_there(self) -> bool:
        try:
            if self._channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                return True
        except BlockingIOError:
            return False
        raise RuntimeError(f"the other process ended with {self._process.wait(60)}")

    def go(self) -> tuple[float, Any]:
        """Give the word; return the nanoseconds until its calls were done, and what it says."""
        begin = time.perf_counter_ns()
        self._channel.sendall(WORD)
        said = self.heard()
        return float(time.perf_counter_ns() - begin), said

    def close(self) -> None:
        """Have it end."""
        self._channel.sendall(END)
        self._process.wait(60)


class Judge:
    """Writes inputs and empties the cache, with nothing in between."""

    def __init__(self, shared: Shared, size: int, count: int) -> None:
        import torch

        self._torch = torch
        self._places = places_of(shared, size, count)
        self._fresh = torch.empty(2, size, size, device="cuda")
        self._sweep = torch.empty(SWEEP_BYTES, dtype=torch.uint8, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def hand_in(self, number: int) -> float:
        """Return the nanoseconds that the device spent on it, once it is done."""
        torch = self._torch
        torch.cuda.synchronize()
        self._fresh.uniform_()
        self._fresh[1].view(-1)[-1:].fill_(number + 2.0)
        torch.cuda.synchronize()
        torch.cuda._sleep(HIDE_CYCLES)
        self._begin.record()
        for a, b in self._places:
            a.copy_(self._fresh[0])
            b.copy_(self._fresh[1])
        self._sweep.fill_(1)
        self._end.record()
        while not self._end.query():
            pass
        return float(self._begin.elapsed_time(self._end)) * 1e6


def measured(size: int, count: int, rounds: int) -> dict[str, Any]:
    """Return what was found with so many places."""
    import torch

    torch.zeros(1, device="cuda")
    shared = Shared(2 * count * size * size * 4)
    judge = Judge(shared, size, count)
    calls, nothing = (Other(kind, shared, size, count) for kind in ("calls", "nothing"))
    walls: dict[str, list[float]] = {"calls": [], "nothing": []}
    spent: list[float] = []
    for number in range(rounds):
        for name, other in (("calls", calls), ("nothing", nothing)):
            spent.append(judge.hand_in(2 * number))
            walls[name].append(other.go()[0])
    calls.close()
    peeking = Other("peek", shared, size, count)
    watched, early = [], []
    for number in range(rounds):
        watched.append(judge.hand_in(number + 10_000))
        now = time.perf_counter_ns()
        peeking.go()
        time.sleep(0.01)
        seen = peeking.go()[1]["seen"]
        if seen and seen[0][1] == number + 10_002.0:
            early.append(now - seen[0][0])
    peeking.close()
    nothing.close()
    each = [(a - b) / count for a, b in zip(walls["calls"], walls["nothing"], strict=True)]
    quick = {name: sorted(found)[len(found) // 4] for name, found in walls.items()}
    return {
        "size": size,
        "places": count,
        "claims": calls.claims,
        "call_ns": {
            "of_quick_ones": (quick["calls"] - quick["nothing"]) / count,
            "median": statistics.median(each),
            "quartiles": statistics.quantiles(each, n=4),
        },
        "nothing_ns": statistics.quantiles(walls["nothing"], n=4),
        "handing_in_ns": statistics.quantiles(spent, n=4),
        "handing_in_while_watched_ns": statistics.quantiles(watched, n=4),
        "seen_before_the_word_ns": statistics.quantiles(early, n=4) if len(early) > 1 else early,
    }


def main() -> int:
    """Measure each number of places."""
    if sys.argv[1:2] == ["--inside"]:
        kind, fd, channel, size, count = sys.argv[2], *map(int, sys.argv[3:])
        contestant(kind, fd, socket.socket(fileno=channel), size, count)
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--places", type=int, nargs="+", default=[5, 14, 28])
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    for count in chosen.places:
        print(json.dumps(measured(chosen.size, count, chosen.rounds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
