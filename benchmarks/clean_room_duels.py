"""Duels and finals on captured calls, each in a fresh timer: what is told apart, and is it right?

    python benchmarks/clean_room_duels.py FOLDER [--seconds 300] [--duels 40] [--finals 3]

Contestants export their calls and end; then each duel has a timer of its own, and the rule of the harness decides
(``kernelcup_harness.protocol.duels``, ``finals``). Kernels ``spin_0`` to ``spin_5`` take 20 us and a percent more each;
equal ones are two captures of ``triton``. Writes one JSON line a duel or final to ``FOLDER/clean-room-duels.jsonl`` and
goes on where it stopped. Needs torch, Triton and one NVIDIA GPU.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import replay_cases
import replay_probe as probe
from clean_room_jobs import Lines
from time_common import options

from kernelcup_harness.protocol import Backend, duels, finals
from kernelcup_harness.timer import rebuild, start_gun
from kernelcup_harness.window import decoding, window
from kernelcup_harness.window.driver import Driver

HERE = Path(__file__).resolve()
NAME = "clean-room-duels.jsonl"
EQUAL = "triton"
SIX = tuple(replay_cases.SPINS)
LONGEST_S = 30.0


def main() -> int:
    """Measure what is missing."""
    chosen = options(__doc__, duels=40, finals=3)
    until = time.monotonic() + chosen.seconds
    lines = Lines(chosen.folder, Backend.CUDA, NAME)
    missing = (
        lines.count(kind="differ") < chosen.duels
        or lines.count(kind="same") < chosen.duels
        or lines.count(kind="final") < chosen.finals
    )
    if not missing:
        return 0
    exported = exports((*SIX, EQUAL))
    for number in range(lines.count(kind="differ"), chosen.duels):
        if time.monotonic() > until:
            return 0
        pair = ("spin_0", "spin_1") if number % 2 else ("spin_1", "spin_0")
        note(lines, "differ", pair, duel(*(exported[each] for each in pair), duels.ERROR))
    for _ in range(lines.count(kind="same"), chosen.duels):
        if time.monotonic() > until:
            return 0
        note(lines, "same", (EQUAL, EQUAL), duel(exported[EQUAL], exported[EQUAL], duels.ERROR))
    for _ in range(lines.count(kind="final"), chosen.finals):
        if time.monotonic() > until:
            return 0
        one_final(lines, exported)
    return 0


def note(lines: Lines, kind: str, pair: tuple[str, str], found: dict[str, Any]) -> None:
    """Write and print one duel."""
    lines.add(kind=kind, pair=list(pair), **found)
    print(f"{kind} {pair}: {found}", flush=True)


def one_final(lines: Lines, exported: dict[str, dict[str, Any]]) -> None:
    """Hold a final of all six, from an order drawn at random, and note it."""
    order, met, begin = random.sample(SIX, len(SIX)), [], time.monotonic()

    def meet(first: str, second: str, error: float) -> duels.Standing:
        found = duel(exported[first], exported[second], error)
        if "failed" in found:
            raise RuntimeError(found["failed"])
        met.append({"pair": [first, second], **found})
        return duels.Standing(found["mean"], found["half"], found["pairs"])

    held = finals.final(order, meet)
    seconds = time.monotonic() - begin
    lines.add(kind="final", began=order, order=held.order, places=held.places, duels=met, seconds=seconds)
    print(f"final: {held.places}, {len(met)} duels, {seconds:.1f} s", flush=True)


def exports(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Have a contestant export each kind; return what timers need, with memory that outlives the contestant."""
    import torch

    members = {name: probe.start("contestant", name) for name in names}
    driver = Driver()
    driver.make_context()
    shared = window.Window(driver)
    torch.cuda.init()
    return {name: export(shared, name, members[name]) for name in names}


def export(shared: Any, name: str, member: Any) -> dict[str, Any]:
    """Take the export of one contestant, and end it."""
    import torch

    from kernelcup_harness.window.allocator import bytes_at

    case, (process, sock, _) = replay_cases.CASES[name], member
    places, nbytes = probe.layout(name)
    inputs, inputs_fd = shared.create(window.WINDOW, nbytes)
    work, work_fd = shared.create(window.WINDOW + nbytes, probe.HEAP)
    for row in places:
        for (at, size), (shape, dtype) in zip(row, case.inputs, strict=True):
            probe.fill(torch, bytes_at(at, size).view(getattr(torch, dtype)).view(shape), 1)
    torch.cuda.synchronize()
    probe.talk(sock, {}, [inputs_fd, work_fd])
    _, fds = probe.listen(sock)
    path = f"/tmp/capture-{name}"
    Path(path).write_bytes(Path(f"/proc/self/fd/{fds[0]}").read_bytes())
    process.kill()
    process.wait()
    member[2].close()
    for region in (inputs, work):
        shared.unmap(region)
    return {"path": path, "fds": [inputs_fd, work_fd], "inputs": nbytes}


def duel(mine: dict[str, Any], other: dict[str, Any], error: float) -> dict[str, Any]:
    """Run one duel in a fresh timer. Both use the window of the first: the same inputs, at the same addresses."""
    return in_a_timer(HERE, mine, {"captures": [mine["path"], other["path"]], "error": error})


def in_a_timer(script: Path, export: dict[str, Any], ask: dict[str, Any]) -> dict[str, Any]:
    """Run a script's part in a fresh process, in the window of an export; return what it finds."""
    ours, theirs = probe.socket.socketpair()
    command = [sys.executable, str(script), "timer", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    probe.talk(ours, {"inputs": export["inputs"], **ask}, export["fds"])
    try:
        answer, _ = probe.listen(ours, LONGEST_S)
    except (EOFError, OSError) as failure:
        answer = {"failed": repr(failure)}
    process.kill()
    process.wait()
    ours.close()
    return dict(answer)


class Timer:
    """A timer's part of these scripts: its request, the window, the clock.

    Args:
        sock: To the process that asks.
    """

    def __init__(self, sock: Any) -> None:
        self.ask, fds = probe.listen(sock)
        driver = Driver()
        context = driver.make_context()
        shared = window.Window(driver)
        nbytes = self.ask["inputs"]
        self._regions = (
            shared.attach(fds[0], window.WINDOW, nbytes, access=window.READ),
            shared.attach(fds[1], window.WINDOW + nbytes, probe.HEAP),
        )
        sweep = driver.handle("cuMemAlloc_v2", ctypes.c_size_t(probe.SWEEP))
        self.gun = start_gun.StartGun(driver, (sweep, probe.SWEEP))
        self._builder = driver, context, [each.addresses for each in self._regions]

    def load(self, path: str) -> list[int]:
        """Load an export, again if it was loaded before; return its graphs."""
        capture = decoding.decode(Path(path).read_bytes())
        return rebuild.Builder(*self._builder).build(capture).executables


def timer(sock: Any) -> None:
    """Fight one duel as the harness does: both sides are loaded in turns, in an order drawn at random."""
    begin = time.perf_counter()
    own = Timer(sock)
    gun, ask = own.gun, own.ask
    empty = gun.empty_graph()
    made: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(duels.LOADS):
        for who in random.sample((0, 1), 2):
            made[who].append(own.load(ask["captures"][who]))
    sides = [[each for places in zip(*side, strict=True) for each in places] for side in made]
    gun.samples(sides[0], 8)
    baseline = statistics.median(gun.samples([empty], 48))

    def more(first: int, count: int) -> list[float]:
        pairs = []
        for number in range(first, first + count):
            at, pair = number % len(sides[0]), [0.0, 0.0]
            for who in (0, 1) if (number + number // len(sides[0])) % 2 else (1, 0):
                pair[who] = gun.sample(sides[who][at])
            pairs.append((pair[0], pair[1]))
        return duels.log_ratios(pairs, baseline)

    standing, _ = duels.decide(more, error=ask["error"])
    gun.check()
    answer = {
        "mean": standing.mean,
        "half": standing.half,
        "pairs": standing.pairs,
        "winner": standing.winner,
    }
    probe.talk(sock, {**answer, "seconds": time.perf_counter() - begin})


if __name__ == "__main__":
    if sys.argv[1] == "timer":
        timer(probe.socket.socket(fileno=int(sys.argv[2])))
    else:
        sys.exit(main())
