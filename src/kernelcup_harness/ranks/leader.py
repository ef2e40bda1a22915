"""The judge's side of calls on several GPUs: asks the judges of all GPU ranks, and makes one answer of theirs.

Each step is taken by all ranks at once. When one has failed, the others have a moment to end theirs: then the job ends,
since a rank that waits for another cannot be called again.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.witnessed import TRIES, WitnessFailed
from kernelcup_harness.core.answer import Answer, CallFailed, Form
from kernelcup_harness.core.call import PLACES
from kernelcup_harness.core.check import Fault, Place
from kernelcup_harness.core.plan import PlannedCase
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import FAILURES, LOST, MachineFailed, RunEnds
from kernelcup_harness.device.nvidia.gate import Gate
from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import JobSpec, Reason, SampleName, StageName, Verdict
from kernelcup_harness.protocol.spec import world_size_of
from kernelcup_harness.ranks import group, judge
from kernelcup_harness.ranks.errors import NotQueued, Raised
from kernelcup_harness.ranks.judge import READY, Called
from kernelcup_harness.ranks.witnessed import Marks, RanksWitness, time_ns
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import M, Message, Split, pack

MAX_FRAME = 16 << 20
GRACE_S = 3.0
"""Time for the other ranks to end a step in which one has failed."""
LATE_S = 10.0
"""Beyond a time limit, until a judge that has not answered counts as lost."""
OWN_S = 600.0
"""Time for the task's own code in one step: its stage ends earlier."""
JOIN_S = 120.0
START_NS = 300_000
"""From the message that a call begins until it does: all judges have it by then."""


class Stuck(Exception):
    """A rank has failed while others wait for it.

    Args:
        error: What it raised.
        text: What the others do.
    """

    def __init__(self, error: Exception, text: str) -> None:
        super().__init__(f"{error}{text}")
        self.error, self.text = error, text


class Ranks:
    """The judges of all GPU ranks, forked by the constructor, which splits the contestants as well.

    Args:
        spec: The job.
        secret: Decides its inputs.
        channels: To the contestants by role.
        gate: What calls are queued behind; None without one.
    """

    def __init__(
        self, spec: JobSpec, secret: bytes, channels: Mapping[str, Channel], gate: Gate | None = None
    ) -> None:
        self.count = spec.ranks
        self.gate = gate
        self._joined: dict[str, int] = {}
        """The size of each group: of the judges, and of each contestant by role."""
        ends = {role: split(channel, self.count) for role, channel in channels.items()}
        self._lines: list[Connection] = []
        for rank in range(self.count):
            ours, theirs = socket.socketpair()
            if not os.fork():
                self._be(rank, theirs, spec, secret, {role: each[rank] for role, each in ends.items()})
            theirs.close()
            self._lines.append(Connection(ours.detach()))
        for each in ends.values():
            for end in each:
                end.close()

    def _be(
        self,
        rank: int,
        line: socket.socket,
        spec: JobSpec,
        secret: bytes,
        ends: Mapping[str, socket.socket],
    ) -> None:
        """Become the judge of a rank, in the forked process."""
        try:
            processes.die_with_parent(os.getppid())
            for other in self._lines:
                other.close()
            channels = {role: Channel(end, max_bytes=MAX_FRAME, max_fds=0) for role, end in ends.items()}
            gate_fd = self.gate.fd if self.gate is not None else None
            judge.serve(Connection(line.detach()), rank, spec, secret, channels, gate_fd)
        finally:
            os._exit(0)

    def ask(self, name: str, *arguments: Any, world: int = 0, timeout_s: float = OWN_S) -> list[Any]:
        """Have the judges of a group take a step, by default all; return their replies by rank.

        Raise what one of them raised, and :class:`Stuck` if others do not end theirs.
        """
        world = world or self.count
        self._send(range(world), (name, arguments))
        return self._gathered(range(world), timeout_s)

    def call(self, world: int, *arguments: Any, timeout_s: float) -> list[Called]:
        """Call the contestants of a group at one time. Raise as :meth:`ask` does."""
        everyone = range(world)
        self._send(everyone, ("call", arguments))
        first = self._received(everyone, timeout_s)
        ready = [rank for rank, reply in first.items() if reply == READY]
        if len(ready) < world:
            self._send(ready, None)
            first |= self._received(ready, GRACE_S)
            self._raise(first, everyone)
        self._send(everyone, time.perf_counter_ns() + START_NS)
        return self._gathered(everyone, timeout_s)

    def _send(self, ranks: Sequence[int], message: Any) -> None:
        for rank in ranks:
            try:
                self._lines[rank].send(message)
            except OSError as error:
                raise MachineFailed(f"the judge of GPU rank {rank} has ended") from error

    def _gathered(self, ranks: Sequence[int], timeout_s: float) -> list[Any]:
        found = self._received(ranks, timeout_s)
        self._raise(found, ranks)
        return [found[rank] for rank in ranks]

    def _received(self, ranks: Sequence[int], timeout_s: float) -> dict[int, Any]:
        """Return the replies that come in time, by rank: all, or what there is a moment after one has failed."""
        until, found = time.monotonic() + timeout_s + LATE_S, dict[int, Any]()
        while len(found) < len(ranks) and (left_s := until - time.monotonic()) > 0:
            missing = {self._lines[rank]: rank for rank in ranks if rank not in found}
            for line in wait(list(missing), left_s):
                rank = missing[line]  # type: ignore[index]
                found[rank] = self._reply(rank)
                if isinstance(found[rank], Raised):
                    until = min(until, time.monotonic() + GRACE_S)
        return found

    def _reply(self, rank: int) -> Any:
        try:
            return self._lines[rank].recv()
        except (EOFError, OSError) as error:
            raise MachineFailed(f"the judge of GPU rank {rank} has ended") from error

    def _raise(self, found: Mapping[int, Any], ranks: Sequence[int]) -> None:
        """Raise the error of a rank, that of one which did not only wait for the others first."""
        failed = {rank: each.error(rank) for rank, each in found.items() if isinstance(each, Raised)}
        waited = [rank for rank in ranks if rank not in found or isinstance(failed.get(rank), ChannelTimeout)]
        if not failed and not waited:
            return
        states = [f"GPU rank {rank} had returned" for rank in ranks if rank in found and rank not in failed]
        states += [f"GPU rank {rank} had not returned" for rank in waited]
        rank = min(failed, key=lambda each: (weight_of(failed[each]), each), default=None)
        error = failed[rank] if rank is not None else ChannelTimeout("")
        text = f"; {', '.join(states)}" if states else ""
        vars(error)["ranks"] = f" (GPU rank {rank}{text})" if rank not in waited else f" ({text[2:]})"
        if waited and rank not in waited:
            raise Stuck(error, text) from error
        raise error

    def join(self, world: int) -> None:
        """Have the judges be a group of this size."""
        if self._joined.get("") != world:
            self._joined[""] = world
            self.ask("join", world, group.free_port(), timeout_s=JOIN_S)

    def have_joined(self, role: str, world: int) -> None:
        """Have the contestants of a role be a group of this size."""
        if self._joined.get(role) != world:
            self._joined[role] = world
            arguments = role, world, group.free_port(), JOIN_S
            self.ask("have_joined", *arguments, timeout_s=JOIN_S)


def weight_of(error: Exception) -> int:
    """Return the place of an error among those of several ranks: what others follow from comes first."""
    if isinstance(error, (ChannelClosed, BrokenProtocol)):
        return 0
    if isinstance(error, ChannelTimeout):
        return 2
    return 3 if isinstance(error, MachineFailed) and "NotCalled" in str(error) else 1


def split(channel: Channel, count: int) -> list[socket.socket]:
    """Have a contestant run as many processes; return our end of the channel to each."""
    pairs = [socket.socketpair() for _ in range(count)]
    channel.send(pack(Split(ranks=count)), [theirs.fileno() for _, theirs in pairs])
    for _, theirs in pairs:
        theirs.close()
    return [ours for ours, _ in pairs]


Token = tuple[Place, SampleName]
"""Names an input, of which each rank has its own part."""


class LeaderChecks:
    """Correctness of a case: an answer is right if the judges of all ranks find theirs right.

    Args:
        ranks: The judges.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._forms: dict[tuple[StageName, int], Form | None] = {}
        self.remarks: dict[int, str] = {}

    def place(self, stage: StageName, case: PlannedCase) -> Place:
        """Return the place of a case in a stage."""
        return Place(stage, case.index, case.parameters)

    def twins(self, _place: Place) -> Sequence[bool]:
        """Return no twins: what a change of one rank's input means for the others is not known."""
        return []

    def counts(self, _place: Place, _sample: SampleName) -> bool:
        """Return whether a wrong answer counts: always."""
        return True

    def make_input(self, place: Place, sample: SampleName) -> Token:
        """Return what names an input: each rank makes its own."""
        return place, sample

    def form(self, place: Place) -> Form | None:
        """Return the form of the answers of rank 0. Raise ``TaskFault``."""
        if place.key not in self._forms:
            self._forms[place.key] = self._own("form", place)[0]
        return self._forms[place.key]

    def expected(self, data: Token) -> None:
        """Have all ranks call the reference. Raise ``TaskFault``."""
        self._own("expected", *data)

    def fault(self, place: Place, sample: SampleName, _data: Token, _answer: Answer) -> Fault | None:
        """Return the fault of the first rank whose answer is wrong, None if all are right."""
        if (fault := first(self._own("compared", place, sample))) is not None:
            return fault
        try:
            return first(self._own("checked", place, sample))
        except Stuck as stuck:
            if not isinstance(stuck.error, TaskFault):
                raise
            text = f"the checker cannot work with this output: {stuck}"
            raise RunEnds(Verdict.WRONG_ANSWER, Reason.DIFFERS, text) from stuck
        except TaskFault as raised:
            # All ranks can go on: is it this answer, or would the checker fail on the reference's as well?
            if first(self._own("checked", place, sample, right=True)) is not None:
                raise
            text = f"the checker cannot work with this output: {raised}"
            return Fault(reason=Reason.DIFFERS, text=text)

    def _own(self, name: str, place: Place, *arguments: Any, right: bool = False) -> list[Any]:
        """Take a step that runs the task's own code."""
        world = world_size_of(place.parameters)
        self._ranks.join(world)
        more = (*arguments, True) if right else arguments
        return self._ranks.ask(name, place, *more, world=world)


def first(faults: Sequence[Fault | None]) -> Fault | None:
    """Return the fault of the first rank that has one; its text names the rank."""
    for rank, fault in enumerate(faults):
        if fault is not None:
            return replace(fault, text=f"GPU rank {rank}: {fault.text}")
    return None


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
        self._unreadable = 0
        """Watches in a row that could not be read."""
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
            return replace(self._called(data, timeout_s, profile=profile, timed=True), ns=math.nan)
        try:
            return self._watched(self._witness, place, sample, timeout_s)
        except NotQueued as reason:
            self.unwatched[place.key] = str(reason)
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
            nbytes = ranks.ask("queue", role, place, sample, gate.number, world=world)
            witness.begin()
            ranks.ask("write", role, marks, world=world)
            opened_ns = time.perf_counter_ns()
            gate.open()
            own_ns = ranks.ask("take", role, marks, timeout_s, world=world, timeout_s=timeout_s)
            wall_ns = float(time.perf_counter_ns() - opened_ns)
            witness.end()
        except (NotQueued, Stuck) as reason:
            self._let_through(gate, world, marks, timeout_s, reason)
            raise
        finally:
            gate.open()
            self.waited_s += time.monotonic() - began
        return Answer(ns=self._seen_ns(witness, place, marks, nbytes), own_ns=max(own_ns), wall_ns=wall_ns)

    def _let_through(self, gate: Gate, world: int, marks: Marks, timeout_s: float, reason: Exception) -> None:
        """Let the calls end that were queued, with their input: another rank's could not be."""
        if isinstance(reason, NotQueued) and "on the host" not in str(reason):
            self._ranks.ask("write", self._role, marks, world=world)
            gate.open()
            self._ranks.ask("drop", self._role, timeout_s, world=world, timeout_s=timeout_s)

    def _seen_ns(
        self, witness: RanksWitness, place: Place, marks: Marks, nbytes: Sequence[tuple[int, int]]
    ) -> float:
        """Return the time of the last watch, NaN if it is unreadable. Raise ``WitnessFailed`` for too many of them."""
        try:
            spans = witness.spans(marks, nbytes)
        except trace.Unreadable as error:
            self._unreadable += 1
            if self._unreadable >= TRIES:
                raise WitnessFailed(f"the witness: {error}") from error
            return math.nan
        self._unreadable = 0
        first_ns = min(each.begin_ns for each in spans)
        times_ns = [each.end_ns - first_ns for each in spans]
        self.rank_ns.setdefault(place.key, []).append(times_ns)
        return time_ns(spans)

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
