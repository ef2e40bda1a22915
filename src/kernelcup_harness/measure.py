"""The judge's own measurements of a case: handshakes and slopes, beside the contestant's claims."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelcup_harness import aliasing, audits, wire
from kernelcup_harness.answers import HANDSHAKE, REPLAY, Answer, CallFailed, NotCommitted
from kernelcup_harness.calls import ARMING_S, Armed, Caller
from kernelcup_harness.checks import Checks, Fault, Place
from kernelcup_harness.protocol import NotCaptured, Reason, SampleName
from kernelcup_harness.schedule import PLACES, CaseRun
from kernelcup_harness.trusted import RING_SPREAD, UNCOUNTED, Trusted, ring_walls

FIRST_SLOT = 1
"""First slot of handshakes; the slot before is for untimed calls, and for claims."""
SLOTS = 12
"""Inputs given together, so that the judge does not use the device between their calls."""
FEWEST_TOGETHER = 4
LARGEST_TOGETHER = 512 << 20
LARGEST_KEPT = 64 << 20
"""Larger outputs are copied to the device at once: the processor takes too long to copy them."""
FIRST_SOURCE = FIRST_SLOT + SLOTS
"""Slots from which rings are filled."""
SOURCES = 3
"""Different contents in a ring."""
FEWEST_HANDSHAKES, MOST_HANDSHAKES = 8, 40
FEWEST_ARMED, MOST_ARMED = 12, 16
"""Fewer are needed, because armed calls hardly differ."""
FEWEST_IN_TIME = 2
"""Handshakes with large inputs, whose transfer leaves no time for more."""
LARGE_INPUT = 16 << 20
INPUTS_OF_RING = 6
"""The cost of a ring in calls with preparation and checks, independent of the kernel."""
CAPTURED_PATIENCE_S = 10.0
"""Time for queueing a recorded call, which waits for nothing."""
LONGEST_ARMED_NS = 1e9
"""Longer calls are not armed: they need no precise handshake, and the wait for armed calls is short."""
FEWEST_IN_RING, MOST_IN_RING = 8, 256
RING_MEMORY_SHARE = 0.15
SHORT_SERIES_NS = 5e6
"""Least time of a short series, so that the hand-over is small beside a long one."""
LEAST_CLAIM_NS = 1e3
"""Claims below 1 us count as 1 us when the number of passes is chosen."""
SERIES = 4
"""A long series has this many times the calls of a short one."""
FEWEST_PAIRS, MOST_PAIRS = 3, 6
LONG_PAIR_S, FEWEST_LONG_PAIRS = 0.1, 2
"""Two pairs are enough if a pair of captured series takes longer than this."""
MUCH_CLAIMED = 2.0
"""If the claim exceeds this many times the steady-state time, the ring was too small or short: measure again."""
MUCH_LONGER = 10
"""No further pair is measured once a series takes this many times what the claim predicts."""
READ_PLACES = 2
CLAIM_SLOTS: tuple[int, ...] = (0, *range(FIRST_SOURCE + SOURCES, FIRST_SOURCE + SOURCES + PLACES - 1))
"""Slots of claims, in turns."""
LARGEST_CLAIMED = 256 << 20
"""Inputs that together exceed this have fewer places: copying them takes time and memory."""
UNFINISHED = (
    "the answer was still incomplete after everything that the call had queued on its stream was done; "
    "make that stream wait for the work on other streams"
)


def claim_slot(number: int, data: Any) -> int:
    """Return the slot for a claim; large inputs have fewer slots.

    The address of its data changes a kernel's time by some hundredths: for a sum of 2048 x 2048 halves on an H100
    by 1 to 4 %. So each process measures several places.
    """
    count = max(1, min(len(CLAIM_SLOTS), LARGEST_CLAIMED // max(1, input_bytes(data))))
    return CLAIM_SLOTS[number % count]


class Wrong(Exception):
    """An answer was wrong."""

    def __init__(self, sample: SampleName, fault: Fault) -> None:
        super().__init__(fault.text)
        self.sample = sample
        self.fault = fault


class WrongWhenQueued(Exception):
    """The answer is right when called, wrong when replayed or armed: part of the work was not queued."""


@dataclass(slots=True)
class Device:
    """Sizes that bound a ring, in bytes."""

    l2_bytes: int = 0
    memory_bytes: int = 0

    @classmethod
    def of(cls, *, gpu: bool) -> Device:
        """Return the sizes of this process's device; without a GPU there are no rings."""
        if not gpu:
            return cls()
        import torch

        from kernelcup_harness import l2

        return cls(l2.l2_bytes(), int(torch.cuda.mem_get_info()[1]))


@dataclass(slots=True)
class Handshakes:
    """Wall-clock times of single calls and of no-op calls, measured in turns, in nanoseconds."""

    armed: bool = False
    """Whether the device alone answered them."""
    refused: bool = False
    """Whether the contestant refused armed calls without a reason."""
    walls_ns: list[float] = field(default_factory=list)
    noop_ns: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Slopes:
    """The measurements of a ring."""

    captured: bool = False
    not_captured: NotCaptured | None = None
    """Why calls were not captured, if that was tried."""
    cold: bool = True
    """Whether the ring exceeded twice the cache."""
    calls: list[int] = field(default_factory=list)
    walls_ns: list[list[float]] = field(default_factory=list)

    @property
    def call_ns(self) -> float | None:
        """Time of a call, None if nothing was measured."""
        return audits.slope(self.walls_ns, self.calls, captured=self.captured) if self.calls else None

    @property
    def spread(self) -> int:
        """Number of calls of a long series beyond a short one; 0 if nothing was measured."""
        return self.calls[1] - self.calls[0] if self.calls else 0


class Auditor:
    """Measures cases of a ranked stage by the judge's clock.

    Args:
        checks: Makes inputs and checks answers.
        caller: To the submission.
        trusted: The trusted contestant.
        chance: Random numbers from the run's secret.
        remaining: Returns the seconds left of the stage.
        device: Sizes that bound rings.
        noops_before: Times of armed no-op calls before the submission was imported, by case.
    """

    def __init__(
        self,
        *,
        checks: Checks,
        caller: Caller,
        trusted: Trusted,
        chance: random.Random,
        remaining: Callable[[], float],
        device: Device,
        noops_before: Mapping[int, Sequence[float]] | None = None,
    ) -> None:
        self._checks = checks
        self._caller = caller
        self._trusted = trusted
        self._chance = chance
        self._remaining = remaining
        self._device = device
        self._noops_before = noops_before or {}
        self._cooled = False
        self._not_armed: set[int] = set()
        """Eager cases whose calls could not be armed: another try would take as long."""
        self.phases: dict[str, float] = {}

    def evidence(
        self, run: CaseRun, place: Place, claim_ns: float, budget_s: float, *, cooled: bool = False
    ) -> audits.Evidence:
        """Measure a case once; if ``cooled``, the device rests before each long series.

        Raise :class:`Wrong` for a wrong answer, and what the callers raise.
        """
        self._cooled = cooled
        slopes = self._timed("slopes", lambda: self._slopes(run, place, claim_ns, budget_s / 2))
        captured = slopes.captured
        try:
            found = self._timed(
                "handshakes", lambda: self._handshakes(run, place, claim_ns, budget_s / 2, captured=captured)
            )
        except WrongWhenQueued:
            if captured:
                slopes = self._timed(
                    "slopes", lambda: self._slopes(run, place, claim_ns, budget_s / 2, record=False)
                )
                slopes = replace(slopes, not_captured=NotCaptured.STALE)
            found = self._timed(
                "handshakes", lambda: self._called_one_by_one(run, place, budget_s / 2, captured=False)
            )
        run.handshakes_ns += found.walls_ns
        return self._weighed(run, claim_ns, found, slopes)

    def _weighed(self, run: CaseRun, claim_ns: float, found: Handshakes, slopes: Slopes) -> audits.Evidence:
        trusted, residual_ns = self._trusted, self._trusted.handshake_residual_ns
        count, noop_ns = len(found.walls_ns), audits.quick(found.noop_ns)
        slack_ns = audits.handshake_slack(found.noop_ns, count, residual_ns, claim_ns, self._chance)
        before, before_ns = self._noops_before.get(run.case.index, []) if found.armed else [], None
        if before:
            # Disturbing the no-ops must make neither the subtracted time nor the slack much larger.
            before_ns = audits.quick(before)
            usual_ns = audits.handshake_slack(before, count, residual_ns, claim_ns, self._chance)
            slack_ns = min(slack_ns, usual_ns + audits.DRIFT_NS)
        off_ns = audits.noop_to_take_off(noop_ns, before_ns) + trusted.launch_ns
        return audits.Evidence(
            claim_ns=claim_ns,
            captured=slopes.captured,
            not_captured=slopes.not_captured,
            armed=found.armed,
            refused=found.refused,
            handshake_ns=audits.quick(found.walls_ns) - off_ns,
            handshake_slack_ns=slack_ns,
            slope_ns=slopes.call_ns,
            slope_is_cold=slopes.cold,
            slope_slack_ns=audits.slope_slack(
                trusted.readings.slopes,
                trusted.slope_gap_ns,
                claim_ns,
                calls_share=RING_SPREAD / slopes.spread if slopes.spread else 1.0,
            ),
            slope_calls=slopes.calls,
            slope_walls_ns=slopes.walls_ns,
            noop_ns=noop_ns,
            noop_before_ns=before_ns,
        )

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            return work()
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - began

    # Handshakes

    def _handshakes(
        self, run: CaseRun, place: Place, claim_ns: float, budget_s: float, *, captured: bool
    ) -> Handshakes:
        """Return the times of single calls and of no-op calls. Raise :class:`WrongWhenQueued`."""
        refused = False
        if self._trusted.arms and claim_ns <= LONGEST_ARMED_NS and run.case.index not in self._not_armed:
            found = self._armed(run, place, budget_s, captured=captured)
            if found is not None and not found.refused:
                return found
            refused = found is not None
        found = self._called_one_by_one(run, place, budget_s, captured=captured)
        found.refused = refused
        return found

    def _armed(self, run: CaseRun, place: Place, budget_s: float, *, captured: bool) -> Handshakes | None:
        """Return the times of calls that the device answered alone, in turns with no-op calls.

        None if calls cannot be armed: no tensors, no reference, an eager call that waits for the device or
        would read host tensors before they are written. Captured calls do neither; if they are not armed,
        the contestant has refused.
        """
        began = time.monotonic()
        data = self._input(run, place)[1]
        if not captured and not all(each.is_cuda for each in aliasing.leaves(data)):
            return None
        self._trusted.noop_on(data, self._checks.form(place))
        if captured:
            self._capture(run, place, 1)
        found = Handshakes(armed=True)
        fewest = fewest_handshakes(data, FEWEST_ARMED)
        for number in range(UNCOUNTED + MOST_ARMED):
            if number >= UNCOUNTED + fewest and time.monotonic() - began > budget_s:
                break
            sample, data = self._give(run, place, FIRST_SLOT)
            if not self._caller.can_arm(FIRST_SLOT):
                return None
            patience_s = CAPTURED_PATIENCE_S if captured else ARMING_S
            armed = self._caller.armed(
                FIRST_SLOT, replay=captured, timeout_s=self._remaining(), patience_s=patience_s
            )
            if armed is None:
                if captured:
                    return Handshakes(refused=True)
                self._not_armed.add(run.case.index)
                return None
            run.count += 1
            self._check(run, place, sample, data, self._collected(sample, armed), queued=True)
            noop_ns = self._trusted.armed_noop()
            if number >= UNCOUNTED:
                found.walls_ns.append(armed.wall_ns)
                found.noop_ns.append(noop_ns)
        return found

    def _collected(self, sample: SampleName, armed: Armed) -> Answer:
        try:
            return self._caller.open(self._caller.collect(armed, timeout_s=self._remaining()))
        except NotCommitted as error:
            raise Wrong(sample, Fault(reason=Reason.UNFINISHED, text=UNFINISHED)) from error

    def _called_one_by_one(
        self, run: CaseRun, place: Place, budget_s: float, *, captured: bool
    ) -> Handshakes:
        """Return the times of calls that the contestant's process made when the key came, and of no-op calls."""
        began = time.monotonic()
        data, form = self._input(run, place)[1], self._checks.form(place)
        slots = max(FEWEST_TOGETHER, min(SLOTS, LARGEST_TOGETHER // max(1, input_bytes(data))))
        self._trusted.noop_on(data, form)
        if captured:
            self._capture(run, place, slots)
        found = Handshakes()
        fewest = fewest_handshakes(data, FEWEST_HANDSHAKES)
        while len(found.walls_ns) < MOST_HANDSHAKES:
            spent = time.monotonic() - began
            if len(found.walls_ns) >= fewest and spent > budget_s:
                break
            self._round(run, place, slots, found, captured=captured)
        return found

    def _round(self, run: CaseRun, place: Place, slots: int, found: Handshakes, *, captured: bool) -> None:
        """Give inputs, make their calls one by one, and check the answers afterwards."""
        kind = REPLAY if captured else HANDSHAKE
        given = [self._give(run, place, FIRST_SLOT + number) for number in range(slots)]
        arrived = []
        with self._caller.awake(self._remaining()):
            for number in range(slots):
                run.current = given[number][0]
                arrived.append(self._arrived(place, FIRST_SLOT + number, kind))
        found.noop_ns += self._trusted.noops(slots)
        for number, ((sample, data), opened) in enumerate(zip(given, arrived, strict=True)):
            answer = opened()
            run.count += 1
            self._check(run, place, sample, data, answer, queued=captured)
            if number >= UNCOUNTED:
                found.walls_ns.append(answer.wall_ns)

    def _check(
        self, run: CaseRun, place: Place, sample: SampleName, data: Any, answer: Answer, *, queued: bool
    ) -> None:
        """Raise :class:`Wrong`, or :class:`WrongWhenQueued` if queueing was the reason."""
        fault = self._checks.fault(place, sample, data, answer)
        if fault is None:
            return
        if queued and self._is_right_when_called(run, place):
            raise WrongWhenQueued
        raise Wrong(sample, fault)

    def _arrived(self, place: Place, slot: int, kind: str) -> Callable[[], Answer]:
        """Make a call; return a function that opens its answer. Small answers are opened later."""
        form = self._checks.form(place)
        small = form is not None and form.nbytes <= LARGEST_KEPT
        pending = self._caller.go(slot, kind, timeout_s=self._remaining(), keep=small)
        if small:
            return lambda: self._caller.open(pending)
        answer = self._caller.open(pending)
        return lambda: answer

    def _capture(self, run: CaseRun, place: Place, slots: int) -> None:
        """Have a call recorded on each slot, with inputs that are not used again. Raise :class:`WrongWhenQueued`."""
        for number in range(slots):
            self._give(run, place, FIRST_SLOT + number)
            self._caller.place(FIRST_SLOT + number, timeout_s=self._remaining())
            frame = {"type": "capture", "slot": FIRST_SLOT + number}
            if self._caller.ask(frame, "captured", timeout_s=self._remaining())[0].get("ok") is not True:
                raise WrongWhenQueued

    def _is_right_when_called(self, run: CaseRun, place: Place) -> bool:
        sample, data = self._give(run, place, FIRST_SLOT)
        pending = self._caller.go(FIRST_SLOT, HANDSHAKE, timeout_s=self._remaining())
        return self._checks.fault(place, sample, data, self._caller.open(pending)) is None

    # Slopes

    def _slopes(
        self, run: CaseRun, place: Place, claim_ns: float, budget_s: float, *, record: bool = True
    ) -> Slopes:
        """Return the steady-state time of a call; empty if it would take too long or fails."""
        found = self._at_length(run, place, claim_ns, budget_s, record=record)
        call_ns = found.call_ns
        if not found.captured or call_ns is None or claim_ns <= MUCH_CLAIMED * max(LEAST_CLAIM_NS, call_ns):
            return found
        again = self._at_length(run, place, max(LEAST_CLAIM_NS, call_ns), budget_s, record=record)
        return again if again.captured else found

    def _at_length(
        self, run: CaseRun, place: Place, claim_ns: float, budget_s: float, *, record: bool
    ) -> Slopes:
        """Measure with a ring as large, and series as long, as a claim allows."""
        form = self._checks.form(place)
        data = self._input(run, place)[1]
        place_bytes = input_bytes(data) + (form.nbytes if form is not None else 0)
        count = ring_size(place_bytes, claim_ns, budget_s, self._device)
        if not count or (input_bytes(data) >= LARGE_INPUT and INPUTS_OF_RING * run.call_s > budget_s):
            return Slopes()
        try:
            found = self._measured(run, place, claim_ns, budget_s, count, record=record)
        except CallFailed as failure:
            # Many calls may need more memory than one: this is not the submission's failure.
            if failure.kind not in ("memory", "exception", "too_large"):
                raise
            return Slopes()
        return replace(found, cold=count * place_bytes > 2 * self._device.l2_bytes)

    def _measured(
        self, run: CaseRun, place: Place, claim_ns: float, budget_s: float, count: int, *, record: bool
    ) -> Slopes:
        self._fill(run, place, count, "record" if record else "eager")
        captured, reason = self._captured, self._why_not
        found = self._series(run, place, claim_ns, budget_s, count)
        if found is None and captured:
            self._fill(run, place, count, "eager")
            captured, reason = False, NotCaptured.STALE
            found = self._series(run, place, claim_ns, budget_s, count)
        self._ask({"type": "ring", "slots": [], "count": 0, "mode": "eager"}, "ring")
        if found is None:
            return Slopes()
        few, many, passes = found
        return Slopes(
            captured=captured,
            not_captured=reason,
            calls=[count * each for each in passes],
            walls_ns=[few, many],
        )

    def _series(
        self, run: CaseRun, place: Place, claim_ns: float, budget_s: float, count: int
    ) -> tuple[list[float], list[float], tuple[int, int]] | None:
        """Time the ring on new inputs; return None if its answers are wrong."""
        contents = self._fill(run, place, count, "refill")
        pass_ns = max(1.0, self._ask({"type": "run", "passes": 1}, "ran"))
        if self._captured:
            # Bounded by the claim: otherwise a delayed pass would make series so short that their hand-over hides work.
            pass_ns = min(pass_ns, count * max(LEAST_CLAIM_NS, claim_ns))
        few_passes = max(1, math.ceil(SHORT_SERIES_NS / pass_ns))
        # The device rests as long as it works, hence the factor 2.
        pair_s = 2 * few_passes * (1 + SERIES) * pass_ns / 1e9
        # Of eager series the median counts.
        fewest = FEWEST_LONG_PAIRS if pair_s >= LONG_PAIR_S and self._captured else FEWEST_PAIRS
        pairs = max(fewest, min(MOST_PAIRS, int(budget_s / pair_s)))
        passes = (few_passes, few_passes * SERIES)
        most_ns = MUCH_LONGER * passes[1] * pass_ns
        # No separate limit: a series that is cut off would look as if the task had used up the stage's time.
        few, many = ring_walls(
            self._caller,
            passes,
            pairs,
            timeout_s=self._remaining(),
            rests=True,
            cooled=self._cooled,
            most_ns=most_ns,
        )
        form = self._checks.form(place)
        answers_in_input = form is not None and form.in_place
        if not answers_in_input and not self._is_right(place, contents, count):
            return None
        # Again with other inputs, so that the submission cannot know which answers are checked.
        contents = self._fill(run, place, count, "refill")
        self._ask({"type": "run", "passes": 1}, "ran")
        return (few, many, passes) if self._is_right(place, contents, count) else None

    def _is_right(self, place: Place, contents: list[SampleName], count: int) -> bool:
        """Check some places of the ring. If calls share an output, only the last answer is right."""
        places = self._chance.sample(range(count), min(READ_PLACES, count))
        return all(self._right_at(place, contents, number) for number in places) or self._right_at(
            place, contents, count - 1
        )

    def _right_at(self, place: Place, contents: list[SampleName], number: int) -> bool:
        sample = contents[number % len(contents)]
        source = FIRST_SOURCE + number % len(contents)
        answer = self._caller.read(source, number, timeout_s=self._remaining())
        return self._checks.fault(place, sample, self._checks.make_input(place, sample), answer) is None

    def _fill(self, run: CaseRun, place: Place, count: int, mode: str) -> list[SampleName]:
        """Fill the ring with new inputs and return their names."""
        sources = range(FIRST_SOURCE, FIRST_SOURCE + min(SOURCES, count))
        contents = []
        for slot in sources:
            contents.append(self._give(run, place, slot)[0])
            self._caller.place(slot, timeout_s=self._remaining())
        frame = {"type": "ring", "slots": list(sources), "count": count, "mode": mode}
        reply, _wall = self._caller.ask(frame, "ring", timeout_s=self._remaining())
        self._captured, self._why_not = reply.get("captured") is True, why_not(reply.get("reason"))
        return contents

    def _ask(self, frame: dict[str, Any], expected: str) -> float:
        return self._caller.ask(frame, expected, timeout_s=self._remaining())[1]

    # Inputs

    def _input(self, run: CaseRun, place: Place) -> tuple[SampleName, Any]:
        sample = run.fresh()
        run.current = sample
        return sample, self._checks.make_input(place, sample)

    def _give(self, run: CaseRun, place: Place, slot: int) -> tuple[SampleName, Any]:
        sample, data = self._input(run, place)
        self._caller.give(slot, data, self._checks.form(place), timeout_s=self._remaining())
        return sample, data


def input_bytes(data: Any) -> int:
    """Return the bytes of the tensors of an input."""
    return sum(wire.span_of(tensor) * tensor.element_size() for tensor in aliasing.leaves(data))


def fewest_handshakes(data: Any, usual: int) -> int:
    """Return the least number of handshakes, however long they take."""
    return FEWEST_IN_TIME if input_bytes(data) >= LARGE_INPUT else usual


def why_not(said: object) -> NotCaptured | None:
    """Return the reason that a contestant gives for a failed recording; unknown ones are ``UNKNOWN``."""
    if not said:
        return None
    return next((each for each in NotCaptured if each == said), NotCaptured.UNKNOWN)


def ring_size(place_bytes: int, claim_ns: float, budget_s: float, device: Device) -> int:
    """Return the number of places with which a ring exceeds twice the cache; 0 if there is no room or no time."""
    if not device.l2_bytes:
        return 0
    wanted = math.ceil(2.1 * device.l2_bytes / max(1, place_bytes))
    room = int(RING_MEMORY_SHARE * device.memory_bytes / max(1, place_bytes))
    # At least a short and a long series, one trial pass, and one pass to check.
    in_time = int(budget_s * 1e9 / max(1.0, claim_ns) / (SERIES + 3))
    count = min(max(FEWEST_IN_RING, min(wanted, MOST_IN_RING)), room, in_time)
    return count if count >= 2 else 0
