"""How many jobs may start now, and of which leaderboards."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kernelcup.app.machines import machines, reservations
from kernelcup.app.machines.calibrations import Calibrations
from kernelcup.app.machines.placement import Fleet
from kernelcup.app.queue.queries import backlog
from kernelcup.app.queue.under_way import UnderWay
from kernelcup.app.rules import limits
from kernelcup.domain import Device, JobKind, slots_for
from kernelcup.engine import Database
from kernelcup.errors import LaunchError
from kernelcup.launchers.base import Launcher, MachineReading

NOTED_EVERY_S = 10.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """Where jobs of a device may start."""

    free: Mapping[str, int]
    """How many may start on each machine."""
    large: frozenset[str]
    """The machines that have enough GPUs for one, free or not."""
    is_full: bool
    """Whether as many run as the configuration allows."""

    @property
    def is_open(self) -> bool:
        """Whether a job may start."""
        return not self.is_full and any(count > 0 for count in self.free.values())

    def emptiest(self, smallest: Room) -> frozenset[str]:
        """Return the large machine that will be free first: where most jobs of the smallest device could start."""
        named = () if self.is_full else self.large
        chosen = [(count, name) for name, count in smallest.free.items() if name in named]
        return frozenset(name for _, name in sorted(chosen)[-1:])


class Rooms:
    """The free slots of a dispatcher's devices, and the machines behind them."""

    def __init__(
        self,
        db: Database,
        devices: Sequence[Device],
        launchers: Mapping[str, Launcher],
        *,
        calibrations: Calibrations,
        under_way: UnderWay,
        clock: Callable[[], datetime],
    ) -> None:
        self._db = db
        self._devices = devices
        self._launchers = launchers
        self._calibrations = calibrations
        self._under_way = under_way
        self._clock = clock
        self._note_at = 0.0
        self._draining: frozenset[str] = frozenset()
        self._reserved: frozenset[str] = frozenset()
        self._resting: frozenset[str] = frozenset()
        """Launchers whose machines all drain, or whose budget is used up."""

    def running(self, device: Device) -> int:
        """Return how many of our jobs run on a device."""
        return self._under_way.running(device)

    def jobs_under_way(self) -> set[int]:
        """Return our jobs that have not ended."""
        return {attempt.lease.job.id for attempt in self._under_way}

    def free(self, device: Device) -> int:
        """Return how many jobs may start on a device now. Raise ``LaunchError``, ``OSError``."""
        if self._calibrations.holds(device) or device.launcher in self._resting:
            return 0
        # The launcher's figure may not include a run that was started just now.
        running = self._under_way.running(device)
        return min(device.slots - running, self._launchers[device.launcher].capacity(device))

    def by_machine(self, devices: Sequence[Device], *, without: frozenset[str]) -> dict[str, Room]:
        """Return where jobs of devices of one launcher may start, but on some machines; by device."""
        launcher = self._launchers[devices[0].launcher]
        found = [each for each in launcher.probe(devices) if each.name not in without | self._draining]
        found = [] if devices[0].launcher in self._resting else found
        rooms = {}
        for device in devices:
            large = {each.name for each in found if slots_for(each.slots, device.name) > 0} - self._reserved
            left = self.free(device)
            free = {each.name: left if each.free is None else each.free.get(device.name, 0) for each in found}
            is_full = device.slots <= self._under_way.running(device)
            rooms[device.name] = Room(free=free, large=frozenset(large), is_full=is_full)
        return rooms

    def in_use(self, device: Device) -> int:
        """Return how many slots of a device are neither running our jobs nor free."""
        running = self._under_way.running(device)
        if self._calibrations.holds(device):
            return device.slots - running
        try:
            free = self._launchers[device.launcher].capacity(device)
        except (LaunchError, OSError):  # reported when a job is to start; the heartbeat must go on
            return 0
        return max(device.slots - running - free, 0)

    def without_room(self, device: Device, *, without: frozenset[str] = frozenset()) -> list[JobKind]:
        """Return the kinds of waiting jobs that none of the machines with room, but some, may judge."""
        launcher = self._launchers[device.launcher]
        with self._db.read() as session:
            fleet = Fleet.read(session, launcher=device.launcher, device=device.name, now=self._clock())
        if not launcher.durable and not fleet.reserved:
            return []
        with_room = [
            each.name
            for each in launcher.probe([device])
            if each.name not in without and (each.free is None or each.free.get(device.name, 0) > 0)
        ]
        with self._db.read() as session:
            kinds = backlog.waiting_kinds(session, device=device.name)
        if not fleet.reserved:  # practice runs anywhere
            kinds = [kind for kind in kinds if kind.is_ranked]
        return fleet.full_for(kinds, with_room)

    def note_machines(self) -> None:
        """Store which machines the launchers reach, from time to time."""
        if time.monotonic() < self._note_at:
            return
        self._note_at = time.monotonic() + NOTED_EVERY_S
        found: dict[str, Sequence[MachineReading]] = {}
        for name, launcher in self._launchers.items():
            served = [device for device in self._devices if device.launcher == name]
            try:
                found[name] = launcher.probe(served)
            except (LaunchError, OSError) as error:
                logger.warning("launcher %s cannot list its machines: %s", name, error)
                continue
            if name not in machines.CONNECTING:  # agents report themselves
                own = not launcher.durable
                machines.note_seen(self._db, found[name], launcher=name, is_own=own, now=self._clock())
        self._draining = draining = machines.draining(self._db)
        self._reserved = reservations.reserved_now(self._db, now=self._clock())
        with self._db.read() as session:
            spent = limits.used_up(session, self._clock())
        self._resting = frozenset(spent) | {
            name for name, some in found.items() if some and all(each.name in draining for each in some)
        }
