"""Calls on several GPUs: by the judge's wall clock, or queued behind a gate and seen by the witness."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.witnessed import TRIES, WitnessFailed
from kernelcup_harness.core.answer import Answer, CallFailed, Form
from kernelcup_harness.core.call import PLACES
from kernelcup_harness.core.check import Place
from kernelcup_harness.core.verdict import FAILURES, LOST, RunEnds
from kernelcup_harness.device.nvidia.gate import Gate
from kernelcup_harness.isolation.sizes import world_size_of
from kernelcup_harness.protocol import Reason, SampleName, StageName, Verdict
from kernelcup_harness.ranks.errors import NotQueued
from kernelcup_harness.ranks.leader import START_NS, Ranks, Stuck, Token
from kernelcup_harness.ranks.witnessed import Marks, RanksWitness, WorkBeside, skew_ns, time_ns
from kernelcup_harness.wire.channel import ChannelClosed
from kernelcup_harness.wire.messages import M, Message

LATE_NS = 50_000.0
"""GPUs that find the gate open begin within 8 us of each other; one that has to switch between processes takes 100 us
and more."""
MAKE_UP = 3
"""Watches that can be read make up for one that cannot: a submission could spoil those of its slower calls."""


class LeaderLine:
    """Requests to the contestants of a role that need no input."""

    def __init__(self, ranks: Ranks, role: str) -> None:
        self._ranks, self._role = ranks, role

    def ask(self, request: Message, expected: type[M], *, timeout_s: float) -> M:
        """Return the reply of rank 0 when all have replied. Raise as ``Line.ask`` does."""
        world = world_size_of(getattr(request, "parameters", {}))
        self._ranks.have_joined(self._role, world)
        replies = self._ranks.ask(
            "ask", self._role, request, expected, timeout_s, world=world, timeout_s=timeout_s
        )
        return replies[0]  # type: ignore[no-any-return]


class LeaderCaller:
    """Calls the contestants of a role, one for each GPU rank, at one time.

    Args:
        ranks: The judges of the ranks.
        role: The contestants.
        witness: Sees the calls of cases that can be queued; None for the wall clock.
    """

    def __init__(self, ranks: Ranks, role: str, witness: RanksWitness | None = None) -> None:
        self._ranks, self._role, self._witness = ranks, role, witness
        self.line = LeaderLine(ranks, role)
        self.waited_s = 0.0
        self._counts: dict[tuple[StageName, int], int] = {}
        """Timed calls of each case."""
        self.unwatched: dict[tuple[StageName, int], str] = {}
        """Why a case is timed by the wall clock."""
        self._unreadable = 0.0
        """Watches that could not be read, for which no others make up."""
        self._skews: dict[tuple[StageName, int], list[float]] = {}
        self.late_starts: dict[tuple[StageName, int], int] = {}
        """Calls that do not count because a GPU began late, by case."""
        self.rank_ns: dict[tuple[StageName, int], list[list[float]]] = {}
        """The times of the calls of each case by rank, in the order of the calls."""

    @property
    def is_watched(self) -> bool:
        """Whether there is a witness."""
        return self._witness is not None

    def call(
        self, data: Token, _form: Form | None = None, *, timeout_s: float, profile: bool = False
    ) -> Answer:
        """Call once; return when all ranks have answered. Raise as ``Caller.call`` does."""
        return self._called(data, timeout_s, profile=profile, timed=False)

    def timed(self, data: Token, _form: Form | None, *, timeout_s: float, profile: bool = False) -> Answer:
        """Call once, timed from before the first rank's input is written until the last rank's answer is there."""
        place, sample = data
        count = self._counts[place.key] = self._counts.get(place.key, 0) + 1
        if self._witness is None or place.key in self.unwatched:
            return self._called(data, timeout_s, profile=profile, timed=True)
        if count <= PLACES:
            # The first calls may compile, which none can that is queued.
            answer = self._called(data, timeout_s, profile=profile, timed=True)
            self.rank_ns.pop(place.key, None)
            return replace(answer, ns=math.nan)
        try:
            return self._watched(self._witness, place, sample, timeout_s)
        except NotQueued as reason:
            self.unwatched[place.key] = str(reason)
            self.rank_ns.pop(place.key, None)
            return self._called(data, timeout_s, profile=profile, timed=True)

    def open(self, pending: Answer) -> Answer:
        """Return what has arrived: the judges of the ranks have the answers themselves."""
        return pending

    def _watched(self, witness: RanksWitness, place: Place, sample: SampleName, timeout_s: float) -> Answer:
        """Call once behind the gate, by the witness's time; NaN if it could not read what it saw.

        Raise :class:`NotQueued`, ``TimerFailed``, and as ``Caller.call`` does.
        """
        ranks, role, world, gate = self._ranks, self._role, world_size_of(place.parameters), self._ranks.gate
        assert gate is not None
        marks, began = Marks.draw(), time.monotonic()
        gate.number += 1
        try:
            ranks.join(world)
            ranks.have_joined(role, world)
            inputs = ranks.ask("queue", role, place, sample, gate.number, world=world)
            self._begin(witness)
            ranks.ask("write", role, marks, world=world)
            opened_ns = time.perf_counter_ns()
            gate.open()
            # No answer is copied before all ranks say that they are done, then all at once: one could bring another's
            # until then.
            ranks.ask("settle", role, timeout_s, world=world, timeout_s=timeout_s)
            wall_ns = float(time.perf_counter_ns() - opened_ns)
            at_ns = time.perf_counter_ns() + START_NS
            answers = ranks.ask("take", role, marks, at_ns, world=world, timeout_s=timeout_s)
            witness.end()
            own_ns = ranks.ask("keep_taken", role, world=world)
        except Stuck as stuck:
            raise ends(stuck, place) from stuck
        except NotQueued as reason:
            self._let_through(gate, world, marks, timeout_s, reason)
            raise
        finally:
            gate.open()
            self.waited_s += time.monotonic() - began
        nbytes = list(zip(inputs, answers, strict=True))
        return Answer(ns=self._seen_ns(witness, place, marks, nbytes), own_ns=max(own_ns), wall_ns=wall_ns)

    def _begin(self, witness: RanksWitness) -> None:
        """Begin a watch. Raise ``NotQueued`` if that cannot be beside a call, and ``TimerFailed``."""
        try:
            witness.begin()
        except WitnessFailed as error:
            raise NotQueued(f"the counters cannot be read beside it: {error}") from error

    def _let_through(self, gate: Gate, world: int, marks: Marks, timeout_s: float, reason: Exception) -> None:
        """Let the calls end that were queued, with their input: another rank's could not be."""
        if isinstance(reason, NotQueued) and "on the host" not in str(reason):
            self._ranks.ask("write", self._role, marks, world=world)
            gate.open()
            self._ranks.ask("drop", self._role, timeout_s, world=world, timeout_s=timeout_s)

    def _seen_ns(
        self, witness: RanksWitness, place: Place, marks: Marks, nbytes: Sequence[tuple[int, int]]
    ) -> float:
        """Return the time of the last watch, NaN if it is unreadable.

        Raise ``RunEnds`` and :class:`NotQueued` for too many of them: a long call fits into no watch.
        """
        try:
            spans = witness.spans(marks, nbytes, self._ranks.count)
        except trace.Unreadable as error:
            self._unreadable += 1
            if self._unreadable < TRIES:
                return math.nan
            if isinstance(error, WorkBeside):
                raise RunEnds(Verdict.REJECTED, Reason.FORGED_TIME, str(error), role=self._role) from error
            self._unreadable = 0.0
            raise NotQueued(f"the witness cannot read it: {error}") from error
        self._unreadable = max(0.0, self._unreadable - 1 / MAKE_UP)
        if self._begins_late(place.key, skew_ns(spans)):
            return math.nan
        first_ns = min(each.begin_ns for each in spans)
        times_ns = [each.end_ns - first_ns for each in spans]
        self.rank_ns.setdefault(place.key, []).append(times_ns)
        return time_ns(spans)

    def _begins_late(self, key: tuple[StageName, int], skew: float) -> bool:
        """Return whether a call does not count since a GPU went on with other work of its own when the gate opened.

        It begins far later than in other calls of the case then. A submission whose ranks begin one after the other
        does so in each call. No more than a quarter of the calls is left out.
        """
        skews = self._skews.setdefault(key, [])
        skews.append(skew)
        late = skew > min(skews) + LATE_NS and self.late_starts.get(key, 0) < len(skews) / 4
        self.late_starts[key] = self.late_starts.get(key, 0) + late
        return late

    def _called(self, data: Token, timeout_s: float, *, profile: bool, timed: bool) -> Answer:
        place, sample = data
        world, began = world_size_of(place.parameters), time.monotonic()
        try:
            self._ranks.join(world)
            self._ranks.have_joined(self._role, world)
            arguments = self._role, place, sample, timeout_s, profile, timed
            found = self._ranks.call(world, *arguments, timeout_s=timeout_s)
        except Stuck as stuck:
            raise ends(stuck, place) from stuck
        finally:
            self.waited_s += time.monotonic() - began
        ns = float(max(each.ended_ns for each in found) - min(each.began_ns for each in found))
        if timed:
            if self._witness is not None and (why := next((each.why for each in found if each.why), "")):
                self.unwatched.setdefault(place.key, why)
            times_ns = [float(each.ended_ns - each.began_ns) for each in found]
            self.rank_ns.setdefault(place.key, []).append(times_ns)
        own_ns = max(each.own_ns for each in found)
        profile_text, trace = found[0].profile, found[0].trace
        return Answer(ns=ns, own_ns=own_ns, wall_ns=ns, profile=profile_text, trace=trace)


def ends(stuck: Stuck, place: Place) -> Exception:
    """Return what ends the run when a rank has failed while others wait for it."""
    error = stuck.error
    if isinstance(error, CallFailed):
        return RunEnds(*FAILURES[error.kind], f"in case {place.index}: {stuck}")
    if isinstance(error, ChannelClosed):
        text = f"{LOST}, in case {place.index}{getattr(error, 'ranks', '')}"
        return RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, text, lost=True)
    return error
