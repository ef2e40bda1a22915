"""Which GPUs are out of service, and how they come back.

The database has the truth, so that everybody can see it and several dispatchers of one machine
agree. After a pause a dispatcher looks again, and a GPU that is clean returns to service by itself.
An operator who puts one back vouches for it: what it is like then is what it is compared with.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from kernelcup.domain import OPERATOR, Actor, Role, Scope
from kernelcup.errors import LaunchError, NotFound, StorageUnavailable, UnfitDevice
from kernelcup.launchers.base import KeepsGpus, Launcher
from kernelcup.services import access
from kernelcup.services.progress import GpuBack, GpuOut, Progress
from kernelcup.storage import audit, calibrations, faults
from kernelcup.storage.database import Database
from kernelcup.storage.faults import DeviceFault

SHORTEST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(minutes=10)
OVERDUE = timedelta(hours=1)
"""So long after the moment of the next look nobody can be there who would look."""

logger = logging.getLogger(__name__)


def take_out(db: Database, error: UnfitDevice, *, device: str, now: datetime, machine: str = "") -> None:
    """Store that the GPUs of an error are out of service."""
    with db.write() as session:
        faults.remove_overdue(session, before=now - OVERDUE)
        for gpu in error.gpus:
            fault = DeviceFault(
                machine=machine or socket.gethostname(),
                gpu=gpu,
                device=device,
                reason=str(error),
                since=now,
                next_look_at=now + SHORTEST_PAUSE,
            )
            faults.put(session, fault)


def outages(db: Database, *, now: datetime) -> list[DeviceFault]:
    """Return what is out of service."""
    with db.read() as session:
        return [fault for fault in faults.all_faults(session) if fault.next_look_at >= now - OVERDUE]


def bring_back(
    db: Database, device: str, *, now: datetime, actor: Actor = OPERATOR, machine: str | None = None
) -> list[DeviceFault]:
    """Put the GPUs of a device back into service, on one machine or on all, and return them.

    Raise ``NotFound`` if none of them is out of service, ``Forbidden`` for others than admins.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.write(durable=True) as session:
        found = [
            fault
            for fault in faults.all_faults(session)
            if fault.device.lower() == device.lower() and machine in (None, fault.machine)
        ]
        for fault in found:
            faults.remove(session, machine=fault.machine, gpu=fault.gpu)
            calibrations.vouch(session, machine=fault.machine, gpu=fault.gpu, now=now)
        if found:
            detail = {"machine": machine, "gpus": [f"{fault.machine}:{fault.gpu}" for fault in found]}
            audit.record(
                session, actor=actor, action="device.up", target=f"device:{device}", detail=detail, now=now
            )
    if not found:
        where = "" if machine is None else f" on {machine}"
        raise NotFound(f"Nothing of {device} is out of service{where}.")
    return found


def outage_text(out: Iterable[DeviceFault]) -> str:
    """Say in one line what is out of service, for whoever waits."""
    return "; ".join(f"{fault.device} on {fault.machine} is out of service: {fault.reason}" for fault in out)


def in_thread(work: Callable[[], None]) -> None:
    """Do something beside the dispatcher's loop."""
    threading.Thread(target=work, name="devices", daemon=True).start()


class Fitness:
    """A dispatcher's view of the GPUs of its machine.

    Args:
        launchers: By the name that devices give as theirs; those that keep no GPUs are left alone.
        beside: Runs a look at a GPU beside the caller, who has leases to renew meanwhile: a GPU that has
            drifted is measured again, which takes seconds, and minutes where its driver hangs.
    """

    def __init__(
        self,
        db: Database,
        launchers: Mapping[str, Launcher],
        *,
        tell: Callable[[Progress], None],
        clock: Callable[[], datetime],
        machine: str | None = None,
        beside: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        self._db = db
        self._keepers = [keeper for keeper in launchers.values() if isinstance(keeper, KeepsGpus)]
        self._tell = tell
        self._clock = clock
        self._machine = machine or socket.gethostname()
        self._beside = beside
        self._looking = threading.Lock()
        self._lock = threading.Lock()
        """Held while what is out of service changes, here and in the database."""
        self._out: dict[str, DeviceFault] = {}

    def refresh(self) -> None:
        """Bring the launchers up to date, and begin one look where it is time."""
        if not self._keepers:
            return
        now = self._clock()
        due = [fault for fault in self._read() if fault.next_look_at <= now]
        if due and self._looking.acquire(blocking=False):
            first = min(due, key=lambda fault: fault.next_look_at)
            self._beside(lambda: self._look(first))
        with self._lock:
            steps = self._adopt(self._read())
        for step in steps:
            self._tell(step)

    def _read(self) -> list[DeviceFault]:
        with self._db.read() as session:
            return [fault for fault in faults.all_faults(session) if fault.machine == self._machine]

    def _adopt(self, found: Sequence[DeviceFault]) -> list[Progress]:
        """Tell the launchers what is out of service; return what is new about that."""
        out = {fault.gpu: fault for fault in found}
        back = [fault for gpu, fault in self._out.items() if gpu not in out]
        for keeper in self._keepers:
            # Those that we put back ourselves are no longer in `_out`: here somebody else did.
            keeper.forget(frozenset(fault.gpu for fault in back))
            keeper.leave_out(frozenset(out))
        new = [fault for gpu, fault in out.items() if gpu not in self._out]
        self._out = out
        return [*(GpuBack(fault=fault) for fault in back), *(GpuOut(fault=fault) for fault in new)]

    def _look(self, fault: DeviceFault) -> None:
        try:
            self._look_again(fault)
        except StorageUnavailable as error:
            logger.warning("not stored what came of a look at GPU %s: %s", fault.gpu, error)
        finally:
            self._looking.release()

    def _look_again(self, fault: DeviceFault) -> None:
        try:
            for keeper in self._keepers:
                keeper.look_again(fault.gpu)
        except LaunchError as error:
            # without a GPU to name, it could not be looked at
            is_told = isinstance(error, UnfitDevice) and error.gpus
            self._postpone(fault, str(error) if is_told else fault.reason)
        else:
            self._put_back(fault)

    def _postpone(self, fault: DeviceFault, reason: str) -> None:
        now = self._clock()
        pause = min(max(now - fault.since, SHORTEST_PAUSE), LONGEST_PAUSE)
        with self._db.write() as session:
            faults.postpone(session, fault, reason=reason, next_look_at=now + pause)

    def _put_back(self, fault: DeviceFault) -> None:
        with self._lock:
            with self._db.write() as session:
                faults.remove(session, machine=fault.machine, gpu=fault.gpu)
            known = self._out.pop(fault.gpu, None)
        logger.info("GPU %s is fit again", fault.gpu)
        if known is not None:
            self._tell(GpuBack(fault=fault))
