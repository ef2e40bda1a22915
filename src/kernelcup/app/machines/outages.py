"""Take GPUs out of service, and bring them back.

The state is in the database, so that users can see it and several dispatchers of one machine agree. After a
pause a dispatcher checks the GPU again, and a healthy GPU returns to service by itself. An operator who puts
a GPU back vouches for it: from then on it is compared with its state at that moment.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.machines.queries import calibrations
from kernelcup.app.machines.queries import outages as outage_rows
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.queue.progress import GpuBack, GpuOut, Progress
from kernelcup.domain import OPERATOR, Actor, Role, Scope
from kernelcup.domain.answers import DeviceFault
from kernelcup.engine import Database
from kernelcup.errors import LaunchError, NotFound, StorageUnavailable, UnfitDevice
from kernelcup.launchers.base import KeepsGpus, Launcher

SHORTEST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(minutes=10)
OVERDUE = timedelta(hours=1)
"""If the next check is overdue for this long, no dispatcher is left that would make it."""

logger = logging.getLogger(__name__)


def take_out(db: Database, error: UnfitDevice, *, device: str, now: datetime, machine: str = "") -> None:
    """Store that the GPUs named by an error are out of service."""
    with db.write() as session:
        outage_rows.remove_overdue(session, before=now - OVERDUE)
        for gpu in error.gpus:
            fault = DeviceFault(
                machine=machine or socket.gethostname(),
                gpu=gpu,
                device=device,
                reason=str(error),
                since=now,
                next_look_at=now + SHORTEST_PAUSE,
            )
            outage_rows.put(session, fault)


@operation("GET", "/devices/outages", subject="queue")
def outages(db: Database, actor: Actor = OPERATOR, *, now: datetime) -> list[DeviceFault]:
    """List the GPUs that are out of service. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.read() as session:
        return [fault for fault in outage_rows.all_faults(session) if fault.next_look_at >= now - OVERDUE]


@operation("POST", "/devices/{name}/up", "admin device-up", subject="queue")
def bring_back(
    db: Database,
    name: Annotated[str, Given(metavar="DEVICE", help="Name of the device.")],
    *,
    machine: Annotated[
        str | None, Given(options=("--machine",), help="Only on this machine; default: on all machines.")
    ] = None,
    actor: Actor = OPERATOR,
    now: datetime,
) -> list[DeviceFault]:
    """Put a device's GPUs back into service now.

    You vouch for them: later jobs are checked against the memory in use at this moment.

    Raises:
        NotFound: None of them is out of service.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.write(durable=True) as session:
        found = [
            fault
            for fault in outage_rows.all_faults(session)
            if fault.device.lower() == name.lower() and machine in (None, fault.machine)
        ]
        for fault in found:
            outage_rows.remove(session, machine=fault.machine, gpu=fault.gpu)
            calibrations.vouch(session, machine=fault.machine, gpu=fault.gpu, now=now)
        if found:
            detail = {"machine": machine, "gpus": [f"{fault.machine}:{fault.gpu}" for fault in found]}
            audit_log.record(
                session, actor=actor, action="device.up", target=f"device:{name}", detail=detail, now=now
            )
    if not found:
        where = "" if machine is None else f" on {machine}"
        raise NotFound(f"No GPU of {name} is out of service{where}.")
    return found


def outage_text(out: Iterable[DeviceFault]) -> str:
    """Return one line about what is out of service, for users who wait."""
    return "; ".join(f"{fault.device} on {fault.machine} is out of service: {fault.reason}" for fault in out)


def in_thread(work: Callable[[], None]) -> None:
    """Run a function in the background of the dispatcher's loop."""
    threading.Thread(target=work, name="devices", daemon=True).start()


class Fitness:
    """A dispatcher's view of the GPUs of its machine.

    Args:
        launchers: By the name that devices refer to; launchers that keep no GPUs are ignored.
        beside: Runs the check of a GPU in the background, since the caller has leases to renew meanwhile: a
            GPU that has drifted is measured again, which takes seconds, or minutes if its driver hangs.
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
        """Held while the set of GPUs out of service changes, here and in the database."""
        self._out: dict[str, DeviceFault] = {}

    def refresh(self) -> None:
        """Bring the launchers up to date, and begin one check if one is due."""
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
            return [fault for fault in outage_rows.all_faults(session) if fault.machine == self._machine]

    def _adopt(self, found: Sequence[DeviceFault]) -> list[Progress]:
        """Pass the GPUs out of service to the launchers; return the changes."""
        out = {fault.gpu: fault for fault in found}
        back = [fault for gpu, fault in self._out.items() if gpu not in out]
        for keeper in self._keepers:
            # GPUs that we put back ourselves are no longer in `_out`: these were put back elsewhere.
            keeper.forget(frozenset(fault.gpu for fault in back))
            keeper.leave_out(frozenset(out))
        new = [fault for gpu, fault in out.items() if gpu not in self._out]
        self._out = out
        return [*(GpuBack(fault=fault) for fault in back), *(GpuOut(fault=fault) for fault in new)]

    def _look(self, fault: DeviceFault) -> None:
        try:
            self._look_again(fault)
        except StorageUnavailable as error:
            logger.warning("cannot store the result of checking GPU %s: %s", fault.gpu, error)
        finally:
            self._looking.release()

    def _look_again(self, fault: DeviceFault) -> None:
        try:
            for keeper in self._keepers:
                keeper.look_again(fault.gpu)
        except LaunchError as error:
            # An error that names no GPU means that it could not be checked.
            is_told = isinstance(error, UnfitDevice) and error.gpus
            self._postpone(fault, str(error) if is_told else fault.reason)
        else:
            self._put_back(fault)

    def _postpone(self, fault: DeviceFault, reason: str) -> None:
        now = self._clock()
        pause = min(max(now - fault.since, SHORTEST_PAUSE), LONGEST_PAUSE)
        with self._db.write() as session:
            outage_rows.postpone(session, fault, reason=reason, next_look_at=now + pause)

    def _put_back(self, fault: DeviceFault) -> None:
        with self._lock:
            with self._db.write() as session:
                outage_rows.remove(session, machine=fault.machine, gpu=fault.gpu)
            known = self._out.pop(fault.gpu, None)
        logger.info("GPU %s is fit again", fault.gpu)
        if known is not None:
            self._tell(GpuBack(fault=fault))
