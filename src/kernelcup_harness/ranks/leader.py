"""The judge's side of calls on several GPUs: asks the judges of all GPU ranks, and makes one answer of theirs.

Each step is taken by all ranks at once. When one has failed, the others have a moment to end theirs: then the job ends,
since a rank that waits for another cannot be called again.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from kernelcup_harness.core.answer import Answer, Form
from kernelcup_harness.core.check import Fault, Place
from kernelcup_harness.core.plan import PlannedCase
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import MachineFailed, RunEnds
from kernelcup_harness.device.nvidia.gate import Gate
from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.sizes import ranks_of, world_size_of
from kernelcup_harness.protocol import JobSpec, Reason, SampleName, StageName, Verdict
from kernelcup_harness.ranks import group
from kernelcup_harness.ranks.errors import NotQueued, Raised
from kernelcup_harness.ranks.judge import READY, Called, RankJudge
from kernelcup_harness.ranks.messages import Split
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import pack

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


class Stuck(MachineFailed):
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
        self.count = ranks_of(spec)
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
            RankJudge(Connection(line.detach()), rank, spec, secret, channels, gate_fd).serve()
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
                # For a call that is not queued no other rank waits yet.
                if isinstance(found[rank], Raised) and found[rank].kind is not NotQueued:
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
    if isinstance(error, (ChannelTimeout, NotQueued)):
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
