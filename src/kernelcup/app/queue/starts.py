"""Claim jobs and have them begun, as many as there is room for; who is next, among leaderboards and devices.

Leaderboards whose jobs wait for the same GPUs are given GPU time by their weights (:class:`Shares`).

Devices that take several GPUs of one host share the hosts with those that take one (``H200x2`` and ``H200``).

Each device of such a family gets a share of the GPUs that follows what its waiting jobs ask for: the device that has
been given the least of its share starts the next job. If that job needs several GPUs and no host has them free, a host
is held: no other job begins there until the job does. A host that a larger job leaves may take the next one at
once, a little ahead of its turn, because each host that is emptied stands partly idle meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.queries import backlog, claims
from kernelcup.app.queue.queries.backlog import Backlog
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.app.queue.rooms import Room, Rooms
from kernelcup.domain import Device, Job, JobKind, Priority, split_count
from kernelcup.engine import Database
from kernelcup.errors import LaunchError

UNKNOWN_S = 30.0
"""The expected GPU time of a leaderboard's first job."""

AHEAD = 2
"""How many jobs on each host the larger device may be ahead of its turn, before its hosts are given back."""


@dataclass(kw_only=True, slots=True)
class _Queue:
    """The waiting jobs of one device."""

    device: Device
    waiting: dict[int, int] = field(default_factory=dict)
    """Their number by priority."""
    had: float = 0.0
    """The share of its demand that it was given, in sum."""

    @property
    def priority(self) -> int | None:
        """The class of the first job; None if none waits."""
        return min((each for each, count in self.waiting.items() if count > 0), default=None)

    @property
    def step(self) -> float:
        """What one more job adds to ``had``."""
        return 1 / max(sum(self.waiting.values()), 1)


class Family:
    """Devices that take the GPUs of the same hosts, those that take more GPUs first."""

    def __init__(self, devices: Iterable[Device]) -> None:
        ordered = sorted(devices, key=lambda device: -device.gpus)
        self._queues = {device.name: _Queue(device=device) for device in ordered}
        self._running: Mapping[str, int] = {}

    @property
    def devices(self) -> list[Device]:
        return [queue.device for queue in self._queues.values()]

    def update(self, waiting: Sequence[Backlog], running: Mapping[str, int]) -> None:
        """Take how many jobs wait and run; a device that had none gets no share for the time that it did not need."""
        self._running = running
        busy = [each for each in self._queues.values() if each.priority is not None]
        lowest = min((each.had for each in busy), default=0.0)
        for queue in self._queues.values():
            if queue not in busy:
                queue.had = max(queue.had, lowest)
            mine = [each for each in waiting if each.device == queue.device.name]
            queue.waiting = {int(each.priority): each.count for each in mine}

    def order(self, *, without: Collection[str]) -> list[Device]:
        """Return the devices with waiting jobs, the one whose turn it is first."""
        found = [
            (queue.priority, queue.had, -queue.device.gpus, name)
            for name, queue in self._queues.items()
            if queue.priority is not None and name not in without
        ]
        return [self._queues[name].device for *_, name in sorted(found)]

    def next(self, rooms: Mapping[str, Room], *, without: Collection[str]) -> tuple[Device, bool]:
        """Return the device whose job is next, and whether that may start; one at least waits.

        Args:
            rooms: Where jobs may start, by device.
            without: Devices that have had their turn.
        """
        order = self.order(without=without)
        for device in order[1:]:
            if (
                device.gpus > order[0].gpus
                and rooms[device.name].is_open
                and self._may_go_ahead(device, order[0])
            ):
                return device, True
        return order[0], rooms[order[0].name].is_open

    def _may_go_ahead(self, device: Device, first: Device) -> bool:
        mine, other = self._queues[device.name], self._queues[first.name]
        ahead = (mine.had - other.had) / mine.step
        return mine.priority == other.priority and ahead <= AHEAD * max(self._running.get(device.name, 0), 1)

    def note_start(self, device: Device, priority: int) -> None:
        """Note that a job of a device was started."""
        queue = self._queues[device.name]
        queue.had += queue.step
        queue.waiting[priority] = max(queue.waiting.get(priority, 0) - 1, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Begun:
    job: Job
    weight: float
    at: datetime
    expected_s: float


class Shares:
    """The GPU time that leaderboards were given by this dispatcher, by start-time fair queueing.

    The leaderboard with the least time by its weight is next. One whose jobs did not wait begins where the others
    are: it saves up no time, and none can be kept waiting for longer than the others take for one job each, times
    their weights by its own.
    """

    def __init__(self) -> None:
        self._had: dict[tuple[str, int], float] = {}
        """GPU-seconds by weight, by model and leaderboard."""
        self._now_at: dict[str, float] = {}
        """What the leaderboard had that was served last, by model."""
        self._begun: dict[int, _Begun] = {}
        self._usual_s: dict[int, float] = {}
        """The GPU time of the last job of each leaderboard."""

    def order(self, model: str, weights: Mapping[int, float]) -> list[int]:
        """Return leaderboards with waiting jobs, the one whose turn it is first."""
        return sorted(weights, key=lambda board_id: (self._at(model, board_id), board_id))

    def begin(self, job: Job, weight: float, now: datetime) -> None:
        """Note that a job was claimed; its leaderboard is charged what its last job took."""
        model, gpus = split_count(job.device)
        expected_s = self._usual_s.get(job.leaderboard_id, UNKNOWN_S) * gpus
        self._now_at[model] = had = self._at(model, job.leaderboard_id)
        self._had[model, job.leaderboard_id] = had + expected_s / weight
        self._begun[job.id] = _Begun(job=job, weight=weight, at=now, expected_s=expected_s)

    def settle(self, running: Collection[int], now: datetime) -> None:
        """Charge the jobs that do not run any more what they took."""
        for job_id in self._begun.keys() - set(running):
            ended = self._begun.pop(job_id)
            model, gpus = split_count(ended.job.device)
            took_s = max((now - ended.at).total_seconds(), 0.0)
            self._usual_s[ended.job.leaderboard_id] = took_s
            self._had[model, ended.job.leaderboard_id] += (took_s * gpus - ended.expected_s) / ended.weight

    def _at(self, model: str, board_id: int) -> float:
        return max(self._had.get((model, board_id), 0.0), self._now_at.get(model, 0.0))


def families(devices: Iterable[Device]) -> list[Family]:
    """Return the families of devices; a device that shares its hosts with no other is in none."""
    found: dict[tuple[str, str], list[Device]] = {}
    for device in devices:
        found.setdefault((device.launcher, device.model), []).append(device)
    return [Family(some) for some in found.values() if len(some) > 1]


class Starts:
    """Starts the jobs of a dispatcher's devices.

    Args:
        begin: Begins a claimed job, on none of some machines; returns whether its launcher could take another one.
        owner: The holder of the leases.
        lease_s: How long they last without a heartbeat.
        profile_share: The share of the jobs of a device that are profiles, as far as some wait, although others of
            an earlier class do.
    """

    def __init__(
        self,
        db: Database,
        devices: Sequence[Device],
        rooms: Rooms,
        *,
        begin: Callable[[Lease, frozenset[str]], bool],
        owner: str,
        lease_s: float,
        clock: Callable[[], datetime],
        profile_share: float = 0.0,
    ) -> None:
        self._db = db
        self._devices = {device.name: device for device in devices}
        self._rooms = rooms
        self._begin = begin
        self._owner, self._lease_s, self._clock = owner, lease_s, clock
        self._families = families(devices)
        self._profile_share = profile_share
        self._since_profile = dict.fromkeys(self._devices, 0)
        """How many jobs each device has begun since it was a profile's turn."""
        self._shares = Shares()
        self._sharing = [device for family in self._families for device in family.devices]

    def look(self, devices: Sequence[str], up_to_submission: int | None, *, is_due: bool) -> None:
        """Start what can start now; ``is_due`` unless this is only because a job has ended.

        Raise ``LaunchError`` if a launcher cannot be asked, once the devices of the others had their turn.
        """
        self._shares.settle(self._rooms.jobs_under_way(), self._clock())
        if is_due and self._sharing:
            with self._db.read() as session:
                waiting = backlog.backlogs(session, devices=[device.name for device in self._sharing])
            running = {device.name: self._rooms.running(device) for device in self._sharing}
            for family in self._families:
                family.update(waiting, running)
        alone = [self._devices[name] for name in devices if self._devices[name] not in self._sharing]
        starts = [partial(self._start_family, family, devices) for family in self._families]
        troubles = []
        for start in [*starts, *(partial(self._start_some, device) for device in alone)]:
            try:
                start(up_to_submission)
            except LaunchError as error:
                troubles.append(error)
        if troubles:
            raise troubles[0]

    def _start_some(self, device: Device, up_to_submission: int | None) -> None:
        free = self._rooms.free(device)
        but = self._rooms.without_room(device) if free > 0 else []
        for _ in range(free):
            lease = self._claim(device, up_to_submission, but)
            if lease is None or not self._begin(lease, frozenset()):
                return

    def _start_family(self, family: Family, devices: Sequence[str], up_to_submission: int | None) -> None:
        """Start jobs of devices that share their hosts, in turns (:mod:`kernelcup.app.queue.starts`)."""
        held: frozenset[str] = frozenset()
        passed = absent = {device.name for device in family.devices} - set(devices)
        while family.order(without=passed):
            rooms = self._rooms.by_machine(family.devices, without=held)
            device, may_start = family.next(rooms, without=passed)
            if may_start:
                but = self._rooms.without_room(device, without=held)
                lease = self._claim(device, up_to_submission, but)
                if lease is not None and self._begin(lease, held):
                    family.note_start(device, lease.job.priority)
                    continue
            passed = passed | {device.name}
            if not may_start and device.gpus > 1 and family.order(without=absent)[0] == device:
                held |= rooms[device.name].emptiest(rooms[family.devices[-1].name])
                absent = passed

    def _claim(self, device: Device, up_to_submission: int | None, but: Sequence[JobKind]) -> Lease | None:
        is_profiles_turn = (self._since_profile[device.name] + 1) * self._profile_share >= 1
        with self._db.read() as session:
            turn, weights = claims.boards_in_turn(
                session,
                device=device.name,
                up_to_submission=up_to_submission,
                but=but,
                prefer=Priority.PROFILE if is_profiles_turn else None,
            )
        claim = partial(
            lifecycle.claim_next,
            self._db,
            owner=self._owner,
            lease_s=self._lease_s,
            devices=[device.name],
            up_to_submission=up_to_submission,
            but=but,
            only=turn,
        )
        lease = None
        for board_id in self._shares.order(device.model, weights):
            now = self._clock()
            lease = claim(now=now, board_id=board_id)
            if lease is not None:
                self._shares.begin(lease.job, weights[board_id], now)
                break
        if lease is not None:
            # A turn for which no profile waits is over: waiting saves up none.
            was_turn = is_profiles_turn or lease.job.priority is Priority.PROFILE
            self._since_profile[device.name] = 0 if was_turn else self._since_profile[device.name] + 1
        return lease
