"""The judge's side of the trusted contestant: clocks and handshakes measured with kernels of known length."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelcup_harness import estimates, timing, wire
from kernelcup_harness.answers import CLAIM, HANDSHAKE, REPLAY, CallFailed, Form
from kernelcup_harness.calls import Armed, Caller
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.protocol import Calibration

LENGTHS_NS = (5_000.0, 20_000.0, 100_000.0)
RING_LENGTH_NS = 20_000.0
RING_CALLS = 16
RING_PASSES = (4, 40)
RING_REPEATS = 6
RING_SPREAD = RING_CALLS * (RING_PASSES[1] - RING_PASSES[0])
"""Number of calls of a long series around the ring beyond a short one."""
LONGEST_REST_S = 0.05
COOLED_S = 0.1
"""Rest after which a device is as quick as for a single call."""
FEWEST_CLAIMS = 8
PROBE_CYCLES = (200_000, 1_000_000)
"""Long enough for the cost of launches to cancel out."""
NOOP_SLOT, EMPTY_SLOT, FIRST_SPIN_SLOT = 1, 2, 3
TIMEOUT_S = 30.0
MOST_OFFSETS_APART_NS = 500.0
TRIES = 3
CLAIM_MISS_NS, CLAIM_MISS_SHARE = 500.0, 0.01
"""Largest residual of a kernel of known length from the line of the others, plus this share of its length."""
MOST_RESIDUAL_NS, MOST_SLOPE_RESIDUAL_NS = 2_000.0, 10_000.0
"""A machine on which known lengths are off by more cannot check claims: it has failed.

Of 317 jobs on an H100 and an H200 the worst were 0.2 and 5.2 us.
"""
NOOPS_BEFORE, FEWEST_NOOPS = 8, 2
UNCOUNTED = 2
"""The first calls of a series do not count: the device switches processes then."""


@dataclass(slots=True)
class Readings:
    """Raw figures in nanoseconds."""

    empty_pair: list[float] = field(default_factory=list)
    empty_kernel: list[float] = field(default_factory=list)
    noop_handshakes: list[float] = field(default_factory=list)
    spin_claims: dict[float, list[float]] = field(default_factory=dict)
    spin_handshakes: dict[float, list[float]] = field(default_factory=dict)
    slopes: list[float] = field(default_factory=list)
    profiled_empty_ns: float | None = None


class TrustedFailed(Exception):
    """The trusted contestant failed: a fault of the machine or of the harness."""


@contextmanager
def ours() -> Iterator[None]:
    """Raise failures of the trusted contestant as :class:`TrustedFailed`, unlike the submission's."""
    try:
        yield
    except (CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
        text = f"the trusted contestant failed: {error or type(error).__name__}"
        raise TrustedFailed(text[:2000]) from error


class Trusted:
    """Measures with a contestant that runs the harness's code only.

    Args:
        caller: To that contestant.
        channel: The same contestant's channel, for a request long before its result is needed.
        gpu: Whether it uses a real GPU.
        empty_kernel_ns: The device's time for an empty kernel, from the machine's calibration: 0 if the profiler
            cannot be used there, None if it has not been tried.
    """

    def __init__(self, caller: Caller, channel: Channel, *, gpu: bool, empty_kernel_ns: float | None) -> None:
        self._caller = caller
        self._channel = channel
        self._gpu = gpu
        self._known_empty_ns = empty_kernel_ns
        self.is_profiling = False
        """Whether the profiler's result was requested and has not arrived."""
        self._cycles_per_ns = 1.0
        self._kinds: dict[int, str] = {}
        self.readings = Readings()
        self.arms = False
        """Whether calls can be armed on this device; known after the calibration."""

    @ours()
    def begin(self) -> None:
        """Request the profiler's time of an empty kernel if it is not known: that takes seconds."""
        if self._gpu and self._known_empty_ns is None:
            self._channel.send({"type": "empty", "arenas": []}, timeout_s=TIMEOUT_S)
            self.is_profiling = True

    @ours()
    def calibrate(self, rounds: int, *, strict: bool = False) -> None:
        """Measure clocks and handshakes, with at most ``rounds`` samples of each.

        If ``strict``, raise :class:`TrustedFailed` if a disturbance would make the slack so large that it excuses
        anything.
        """
        self._end_profiling()
        self.readings.profiled_empty_ns = self._known_empty_ns or None
        self._use("noop", None)
        self._give(NOOP_SLOT, 0)
        self.arms = self._caller.can_arm(NOOP_SLOT) and self._tried(NOOP_SLOT) is not None
        self.readings.empty_pair += self._claims(NOOP_SLOT, rounds)
        self._use("spin", None)
        if self._gpu and not self.readings.spin_claims:
            self._find_clock()
        self._give(EMPTY_SLOT, 0)
        self.readings.empty_kernel += self._claims(EMPTY_SLOT, 2 * rounds)
        for number, length in enumerate(LENGTHS_NS):
            self._give(FIRST_SPIN_SLOT + number, self._cycles(length))
        for length, claims in self._spin_claims(rounds).items():
            self.readings.spin_claims.setdefault(length, []).extend(claims)
        if self._gpu and not self.readings.slopes:
            self._measure_slopes()
        for _ in range(TRIES):
            noops, walls = self._measured_handshakes(rounds)
            if not self._is_exact or residual_ns(noops, walls) <= MOST_RESIDUAL_NS:
                break
        self.readings.noop_handshakes += noops
        for length, found in walls.items():
            self.readings.spin_handshakes.setdefault(length, []).extend(found)
        if strict:
            self._check()

    @property
    def _is_exact(self) -> bool:
        """Whether handshakes should lie on a line: true if a GPU answers alone."""
        return self._gpu and self.arms

    def _check(self) -> None:
        if self._is_exact and self.handshake_residual_ns > MOST_RESIDUAL_NS:
            text = f"handshakes of known lengths are off by {self.handshake_residual_ns / 1e3:.1f} us"
            raise TrustedFailed(f"the judge's clock could not be calibrated: {text}")
        if self.slope_residual_ns > MOST_SLOPE_RESIDUAL_NS:
            text = f"calls of known length in a series are off by {self.slope_residual_ns / 1e3:.1f} us"
            raise TrustedFailed(f"the judge's clock could not be calibrated: {text}")

    def _spin_claims(self, rounds: int) -> dict[float, list[float]]:
        """Return claims of each length; measure again if something disturbed them, as other processes may."""
        for _ in range(TRIES if self._gpu else 1):
            found = {
                length: self._claims(FIRST_SPIN_SLOT + number, rounds)
                for number, length in enumerate(LENGTHS_NS)
            }
            if is_straight(found):
                break
        return found

    def _measure_slopes(self) -> None:
        """Keep the slopes with the smallest residual: disturbances only lengthen them."""
        tries = []
        for _ in range(TRIES):
            self.readings.slopes = self._ring_slopes()
            tries.append((self.slope_residual_ns, self.readings.slopes))
            if self.slope_residual_ns <= CLAIM_MISS_SHARE * RING_LENGTH_NS + CLAIM_MISS_NS:
                break
        self.readings.slopes = min(tries)[1]

    def _measured_handshakes(self, rounds: int) -> tuple[list[float], dict[float, list[float]]]:
        """Return handshakes of no-ops, two a round, and of each length."""
        spins = {length: FIRST_SPIN_SLOT + number for number, length in enumerate(LENGTHS_NS)}
        walls: dict[float, list[float]] = {length: [] for length in spins}
        noops: list[float] = []
        if self.arms and all(self._kinds[slot] == REPLAY for slot in spins.values()):
            # In turns, because a machine's speed varies.
            self._use("noop", None)
            for number in range(UNCOUNTED + rounds):
                kept = number >= UNCOUNTED
                for length, slot in spins.items():
                    walls[length] += [self._armed(slot).wall_ns][:kept]
                noops += [self._armed(NOOP_SLOT).wall_ns for _ in range(2)][: 2 * kept]
        else:
            self._use("spin", None)
            for length, slot in spins.items():
                walls[length] = self._series(slot, UNCOUNTED + rounds, self._kinds[slot], armed=self.arms)
            self._use("noop", None)
            noops = self._series(NOOP_SLOT, UNCOUNTED + 2 * rounds, HANDSHAKE, armed=self.arms)
        return noops, walls

    def _end_profiling(self) -> None:
        if self.is_profiling:
            self.is_profiling = False
            ns = self._channel.receive(TIMEOUT_S).get("ns")
            self._known_empty_ns = ns if isinstance(ns, float) and 0 < ns < 1e5 else 0.0

    @ours()
    def noop_on(self, data: Any, form: Form | None) -> None:
        """Prepare no-op handshakes with the input and the output's form of a case."""
        self._use("noop", form)
        self._caller.give(NOOP_SLOT, data, form, timeout_s=TIMEOUT_S)

    def noops_before(
        self,
        data: Any,
        form: Form | None,
        between: Callable[[], object] = lambda: None,
        *,
        until: float = math.inf,
    ) -> list[float]:
        """Return the times of armed no-op calls on an input; empty if it cannot be armed.

        Measured before the import of the submission, which could slow them down later.

        Args:
            data: The input.
            form: The form of the answer.
            between: Called before each: later the device also switches from the submission to these calls.
            until: Deadline by ``time.monotonic``; a few calls are always made.
        """
        self.noop_on(data, form)
        if not self.arms or not self._caller.can_arm(NOOP_SLOT):
            return []
        found = []
        for number in range(UNCOUNTED + NOOPS_BEFORE):
            if number >= UNCOUNTED + FEWEST_NOOPS and time.monotonic() > until:
                break
            between()
            found.append(self.armed_noop())
        return found[UNCOUNTED:]

    @ours()
    def forget(self) -> None:
        """Free the memory of inputs and answers, which others need first."""
        self._caller.forget(timeout_s=TIMEOUT_S)

    @ours()
    def noops(self, count: int) -> list[float]:
        """Return the wall-clock times of no-op handshakes, as last prepared, in a separate series."""
        return self._series(NOOP_SLOT, count, HANDSHAKE, armed=False)

    @ours()
    def armed_noop(self) -> float:
        """Return the wall-clock time of an armed no-op call, as last prepared.

        Its input is sent again, like those of a submission's calls, so that both find the same cache.
        """
        self._caller.give_again(NOOP_SLOT, timeout_s=TIMEOUT_S)
        return self._armed(NOOP_SLOT).wall_ns

    @property
    def offset_ns(self) -> float:
        """Event time of an empty kernel beyond its time on the device."""
        if not self._gpu or not self.readings.empty_kernel:
            return 0.0
        if self.readings.profiled_empty_ns is None:
            # Only two events with nothing between them are certain then.
            return estimates.robust(self.readings.empty_pair)
        return max(0.0, estimates.robust(self.readings.empty_kernel) - self.readings.profiled_empty_ns)

    def offset_in(self, empty_ns: Sequence[float]) -> float:
        """Return the offset in a process, given the times of empty kernels there before its import.

        The cost of events differs a little between processes and is constant in each. An offset far from the
        trusted contestant's does not count.
        """
        known_ns = self.readings.profiled_empty_ns
        if known_ns is None or not empty_ns:
            return self.offset_ns
        own_ns = estimates.robust(empty_ns) - known_ns
        return own_ns if abs(own_ns - self.offset_ns) <= MOST_OFFSETS_APART_NS else self.offset_ns

    @property
    def empty_kernel_ns(self) -> float:
        """Time of an empty kernel by the contestant's clock."""
        return estimates.robust(self.readings.empty_kernel)

    @property
    def launch_ns(self) -> float:
        """How much longer a handshake with a kernel launch takes, without the kernel's length."""
        return self._handshake_line()[1]

    @property
    def handshake_residual_ns(self) -> float:
        """Root mean square of the residuals of median handshakes from their line."""
        return residual_ns(self.readings.noop_handshakes, self.readings.spin_handshakes)

    @property
    def slope_residual_ns(self) -> float:
        """Absolute difference of the steady-state time and a single call of known length."""
        return abs(self._slope_miss_ns)

    @property
    def slope_gap_ns(self) -> float:
        """How much longer calls of known length take in a series than alone; at least 0."""
        return max(0.0, self._slope_miss_ns)

    @property
    def _slope_miss_ns(self) -> float:
        if not self.readings.slopes:
            return 0.0
        claim = estimates.robust(self.readings.spin_claims[RING_LENGTH_NS]) - self.offset_ns
        return statistics.median(self.readings.slopes) - claim

    def calibration(self) -> Calibration:
        """Return the calibration for the report."""
        found = self.readings
        slope, intercept = fitted([(x, estimates.robust(y)) for x, y in found.spin_claims.items()])
        points = [
            [length, estimates.robust(claims), statistics.median(found.spin_handshakes[length])]
            for length, claims in found.spin_claims.items()
        ]
        middle = statistics.median(found.noop_handshakes)
        return Calibration(
            offset_ns=self.offset_ns,
            empty_pair_ns=estimates.robust(found.empty_pair),
            empty_kernel_ns=estimates.robust(found.empty_kernel),
            spin_line=[slope, intercept],
            spin_points=points,
            ring_slopes_ns=found.slopes,
            handshake_ns=middle,
            handshake_residual_ns=self.handshake_residual_ns,
            handshake_p99_ns=estimates.quantile(found.noop_handshakes, 0.99) - middle,
        )

    def _handshake_line(self) -> tuple[float, float]:
        return line_of(self.readings.noop_handshakes, self.readings.spin_handshakes)

    def _use(self, name: str, form: Form | None) -> None:
        """Choose the kernel, with the form of its answers if it has any."""
        encoder = wire.Encoder()
        tree = encoder.tree(form.value if form is not None else None, "output")
        frame = {"type": "builtin", "name": name, "tree": tree, "table": encoder.table()}
        self._caller.ask(frame, "ready", timeout_s=TIMEOUT_S)

    def _give(self, slot: int, cycles: int) -> None:
        # With a tensor, so that it takes the way of inputs that are masked.
        device = "cuda" if self._gpu else "cpu"
        data = {"cycles": cycles, "at": torch.zeros(8, dtype=torch.uint8, device=device)}
        self._caller.give(slot, data, Form.of(None, in_place=False), timeout_s=TIMEOUT_S)
        self._kinds[slot] = HANDSHAKE
        if self._gpu and slot != NOOP_SLOT:
            frame = {"type": "capture", "slot": slot}
            reply, _wall = self._caller.ask(frame, "captured", timeout_s=TIMEOUT_S)
            self._kinds[slot] = REPLAY if reply.get("ok") is True else HANDSHAKE

    def _claims(self, slot: int, most: int) -> list[float]:
        """Return claims until their mean is known well enough."""
        found: list[float] = []
        while len(found) < most and not is_settled(found):
            found.append(self._caller.open(self._caller.go(slot, CLAIM, timeout_s=TIMEOUT_S)).ns)
        return found

    def _series(self, slot: int, count: int, kind: str, *, armed: bool) -> list[float]:
        """Return wall-clock times without the first ones, during which the device switches processes."""
        if armed:
            return [self._armed(slot).wall_ns for _ in range(count)][UNCOUNTED:]
        with self._caller.awake(TIMEOUT_S):
            calls = (self._caller.go(slot, kind, timeout_s=TIMEOUT_S, keep=True) for _ in range(count))
            return [pending.wall_ns for pending in calls][UNCOUNTED:]

    def _tried(self, slot: int) -> Armed | None:
        replay = self._kinds.get(slot) == REPLAY
        # It waits for nothing: a long time is the machine's fault.
        return self._caller.armed(slot, replay=replay, timeout_s=TIMEOUT_S, patience_s=TIMEOUT_S)

    def _armed(self, slot: int) -> Armed:
        armed = self._tried(slot)
        if armed is None:
            raise TrustedFailed("the trusted contestant failed: its calls could not be armed")
        return armed

    def _cycles(self, length_ns: float) -> int:
        return round(length_ns * self._cycles_per_ns)

    def _find_clock(self) -> None:
        """Measure the device's cycles a nanosecond."""
        taken = []
        for cycles in PROBE_CYCLES:
            self._give(FIRST_SPIN_SLOT, cycles)
            taken.append(statistics.median(self._claims(FIRST_SPIN_SLOT, 5)))
        self._cycles_per_ns = (PROBE_CYCLES[1] - PROBE_CYCLES[0]) / max(1.0, taken[1] - taken[0])

    def _ring_slopes(self) -> list[float]:
        """Measure the slope of a kernel of known length."""
        slot = FIRST_SPIN_SLOT + LENGTHS_NS.index(RING_LENGTH_NS)
        frame = {"type": "ring", "slots": [slot], "count": RING_CALLS, "mode": "record"}
        self._caller.ask(frame, "ring", timeout_s=TIMEOUT_S)
        walls = ring_walls(self._caller, RING_PASSES, RING_REPEATS)
        return estimates.slopes(walls, [RING_CALLS * passes for passes in RING_PASSES])


def is_settled(samples_ns: Sequence[float]) -> bool:
    """Return whether there are enough samples for a precise result."""
    enough = len(samples_ns) >= FEWEST_CLAIMS and len(samples_ns) % 4 == 0
    return enough and estimates.half_width(samples_ns) <= timing.SMALLEST_STEP_NS / 2


def line_of(noops: Sequence[float], walls: Mapping[float, Sequence[float]]) -> tuple[float, float]:
    """Return slope and intercept of handshakes, minus those of no-ops, over the lengths of their kernels."""
    base = statistics.median(noops)
    return fitted([(length, statistics.median(found) - base) for length, found in walls.items()])


def residual_ns(noops: Sequence[float], walls: Mapping[float, Sequence[float]]) -> float:
    """Return the root mean square of the residuals of median handshakes from that line."""
    slope, intercept = line_of(noops, walls)
    base = statistics.median(noops)
    misses = [statistics.median(found) - base - intercept - slope * length for length, found in walls.items()]
    return math.sqrt(statistics.fmean([miss * miss for miss in misses])) if misses else 0.0


def is_straight(claims: Mapping[float, Sequence[float]]) -> bool:
    """Return whether claims of kernels differ from their known lengths by nearly the same amount."""
    over = {length: estimates.robust(samples) - length for length, samples in claims.items()}
    middle = statistics.median(over.values())
    return all(abs(ns - middle) <= CLAIM_MISS_NS + CLAIM_MISS_SHARE * length for length, ns in over.items())


def ring_walls(
    caller: Caller,
    passes: Sequence[int],
    repeats: int,
    *,
    timeout_s: float = TIMEOUT_S,
    rests: bool = False,
    cooled: bool = False,
    most_ns: float = math.inf,
) -> tuple[list[float], list[float]]:
    """Return the wall-clock times of few and of many passes around the ring, in pairs of alternating order.

    With ``rests`` the device idles after each series for as long as the series took, up to 50 ms: a long full load
    can make it slow itself down. With ``cooled`` it rests longer before each long series. No more pairs are measured
    after one that takes more than ``most_ns``.
    """
    few: list[float] = []
    many: list[float] = []
    for number in range(repeats):
        pair = [(passes[0], few), (passes[1], many)]
        for count, walls in pair if number % 2 else pair[::-1]:
            if cooled and walls is many:
                time.sleep(COOLED_S)
            frame = {"type": "run", "passes": count}
            wall_ns = caller.ask(frame, "ran", timeout_s=timeout_s)[1]
            walls.append(wall_ns)
            if rests:
                time.sleep(min(LONGEST_REST_S, wall_ns / 1e9))
        if many[-1] > most_ns:
            break
    return few, many


def fitted(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return slope and intercept of the line through points; slope 1 if there are too few."""
    if len(points) < 2:
        return 1.0, 0.0
    line = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return line.slope, line.intercept
