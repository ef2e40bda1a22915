"""Claim jobs and have them begun, as many as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.queries import backlog, claims
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.app.queue.rooms import Rooms
from kernelcup.app.queue.sharing import Family, Shares, families
from kernelcup.domain import Device, JobKind, Priority
from kernelcup.engine import Database
from kernelcup.errors import LaunchError


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
        """Start jobs of devices that share their hosts, in turns (:mod:`kernelcup.app.queue.sharing`)."""
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
