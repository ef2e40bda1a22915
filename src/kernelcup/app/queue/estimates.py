"""Why and how long jobs wait: positions, estimates from measured times, reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kernelcup.app.machines import dispatchers
from kernelcup.app.machines.machines import MachineState, state_of
from kernelcup.app.machines.placement import usable
from kernelcup.app.machines.queries import dispatchers as dispatchers_rows
from kernelcup.app.machines.queries import machines, outages, reservations
from kernelcup.app.operation import operation
from kernelcup.app.queue.lifecycle import paused_devices
from kernelcup.app.queue.queries import backlog, claims, jobs
from kernelcup.app.rules import limits
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import Job, JobKind, JobState, Priority
from kernelcup.domain.answers import Reservation
from kernelcup.engine import Database, Session
from kernelcup.reporting.phrases import plural
from kernelcup.reporting.results import SubmissionInfo, Waiting
from kernelcup_harness.protocol import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceQueue:
    """The queue of a device; the defaults are those of an idle device that no dispatcher serves."""

    device: str
    queued: int = 0
    running: int = 0
    slots: int = 0
    """The number of jobs that its dispatchers run at once."""
    oldest_queued_at: datetime | None = None
    estimated_wait_s: float | None = None
    """Estimated seconds until a new job would start, behind all others."""
    dispatchers: int = 0
    """The number of dispatchers that serve it and accept new jobs."""
    paused: str | None = None
    """Why it is paused; None if it is not."""
    obstacle: str | None = None
    """Why none of its jobs can start now; None if they can, or wait for others only."""


def waiting_of(db: Database, submission_id: int, now: datetime) -> dict[int, Waiting]:
    """Return the state of each waiting job of a submission, by the job's id."""
    with db.read() as session:
        found = jobs.of_submission(session, submission_id)
        queued = [job for job in found if job.state is JobState.QUEUED]
        if not queued:
            return {}
        looker = _Looker(session, now)
        return {job.id: looker.look(job) for job in queued}


def with_waiting(db: Database, found: SubmissionInfo, now: datetime) -> SubmissionInfo:
    """Return a submission with what its jobs wait for."""
    known = {} if found.ended else waiting_of(db, found.id, now)
    return replace(found, jobs=tuple(replace(job, waiting=known.get(job.id)) for job in found.jobs))


@operation("GET", "/queue", subject="queue")
def queue_status(db: Database, now: datetime) -> list[DeviceQueue]:
    """Show the queue of each device that has waiting or running jobs or is served by a dispatcher."""
    with db.read() as session:
        looker = _Looker(session, now)
        waiting = backlog.backlogs(session)
        running = {lease.job.device for lease in jobs.running(session)}
        served = {device for info in looker.alive for device in info.devices}
        names = sorted({backlog.device for backlog in waiting} | running | served)
        return [looker.queue(name, [each for each in waiting if each.device == name]) for name in names]


class _Looker:
    """The state that is shared by all jobs at one moment."""

    def __init__(self, session: Session, now: datetime) -> None:
        self._session, self._now = session, now
        self.alive = [info for info in dispatchers.alive(session, now) if not info.draining]
        self._paused = paused_devices(session)
        self._faults = outages.all_faults(session)
        self._machines = machines.every(session)
        self._named = machines.ranking(session)
        self._reserved = reservations.since(session, now)
        self._spent = limits.used_up(session, now)

    def look(self, job: Job) -> Waiting:
        """Return why a job waits, and for how long."""
        pace = jobs.mean_durations(self._session, job.device)
        ahead = backlog.ahead(self._session, job)
        before = sum(ahead.values())
        countable = before <= backlog.MOST_COUNTED
        kind, own = self._kind(job), self._own(job)
        return Waiting(
            position=before + 1 if countable else None,
            starts_in_s=self._until_start(job.device, pace, ahead, kind)
            if countable and own is None
            else None,
            runs_s=pace.get(job.mode),
            reason=self._obstacle(job.device, kind) or own or _place(before),
        )

    def _own(self, job: Job) -> str | None:
        """Return why a job waits for another one of its user; None if it does not."""
        if not claims.waits_for_own(self._session, job):
            return None
        return "another job of yours has to end first: none runs beside one with hidden cases"

    def queue(self, device: str, waiting: Sequence[backlog.Backlog]) -> DeviceQueue:
        """Return the state of a device's queue."""
        serving = _serving(self.alive, device)
        running = backlog.under_way(self._session, device=device)
        return DeviceQueue(
            device=device,
            queued=sum(backlog.count for backlog in waiting),
            running=len(running),
            slots=sum(info.devices[device] for info in serving),
            oldest_queued_at=min((backlog.oldest_queued_at for backlog in waiting), default=None),
            estimated_wait_s=self._wait_of_newcomer(device, waiting),
            dispatchers=len(serving),
            paused=self._paused.get(device.lower()),
            obstacle=self._obstacle(device, None),
        )

    def _wait_of_newcomer(self, device: str, waiting: Sequence[backlog.Backlog]) -> float | None:
        pace = jobs.mean_durations(self._session, device)
        # Waiting jobs are not counted by mode: practice is assumed to take as long as its slowest mode.
        practice = max(
            (mode for mode in pace if mode not in (Mode.LEADERBOARD, Mode.PROFILE)),
            key=pace.__getitem__,
            default=Mode.TEST,
        )
        known = {Priority.PRACTICE: practice, Priority.PROFILE: Mode.PROFILE}
        modes: dict[Mode, int] = {}
        for each in waiting:
            mode = known.get(each.priority, Mode.LEADERBOARD)
            modes[mode] = modes.get(mode, 0) + each.count
        return self._until_start(device, pace, modes, None)

    def _until_start(
        self, device: str, pace: Mapping[Mode, float], ahead: Mapping[Mode, int], kind: JobKind | None
    ) -> float | None:
        """Return the estimated seconds until a slot is free for a job, None if that is unknown."""
        if self._obstacle(device, kind) is not None:
            return None
        slots = sum(
            info.devices[device] - info.in_use.get(device, 0) for info in _serving(self.alive, device)
        )
        if self._known(device, None):
            slots = min(slots, sum(each.slots_for(device) for each in self._open(device, kind)))
        running = backlog.under_way(self._session, device=device)
        if sum(ahead.values()) + len(running) < slots:
            return 0.0
        if any(mode not in pace for mode in [*ahead, *(mode for mode, _ in running)]):
            return None
        left_s = sum(
            max(pace[mode] - (self._now - started_at).total_seconds(), 0.0) for mode, started_at in running
        )
        return (left_s + sum(pace[mode] * count for mode, count in ahead.items())) / slots

    def _obstacle(self, device: str, kind: JobKind | None) -> str | None:
        """Return the reason why no job of a device can start, None if there is none."""
        if device.lower() in self._paused:
            return f"the device is paused: {self._paused[device.lower()] or 'no reason was given'}"
        serving = _serving(self.alive, device)
        slots = sum(info.devices[device] for info in serving)
        if not slots:
            return f"no machine with {device} is connected"
        hosts = {info.machine for info in serving}
        out = [fault for fault in self._faults if fault.machine in hosts and fault.device == device]
        if len(out) >= slots:
            return f"{device} is out of service: {max(out, key=lambda fault: fault.since).reason}"
        if (closed := self._closed(device, kind)) is not None:
            return closed
        if sum(info.in_use.get(device, 0) for info in serving) >= slots:
            if not self._known(device, None):
                return f"no {device} has been up yet"
            return f"{device} is busy with another program on its machine, or is being calibrated"
        return None

    def _kind(self, job: Job) -> JobKind | None:
        """Return what decides on a job's machines; None if no machine is known."""
        if not self._machines:
            return None
        board_id = submissions.board_of(self._session, job.submission_id)
        if board_id is None:
            return None
        return JobKind(board_id=board_id, is_ranked=job.mode is Mode.LEADERBOARD)

    def _known(self, device: str, kind: JobKind | None) -> list[machines.Machine]:
        """Return the machines that may judge jobs of a kind, up or not; None for any kind."""
        serving = [each for each in self._machines if each.slots_for(device) > 0]
        if kind is None:
            return serving
        return usable(serving, self._named.get(kind.board_id), is_ranked=kind.is_ranked)

    def _open(self, device: str, kind: JobKind | None) -> list[machines.Machine]:
        """Return the machines that take jobs of a kind now; None for any."""
        return [
            each
            for each in self._known(device, kind)
            if each.name not in {taken.machine for taken in self._keeping(kind)}
            and each.launcher not in self._spent
            and state_of(each, self._now) is MachineState.UP
        ]

    def _keeping(self, kind: JobKind | None) -> list[Reservation]:
        board_id = None if kind is None else kind.board_id
        return [each for each in self._reserved if each.keeps_out(board_id, self._now)]

    def _closed(self, device: str, kind: JobKind | None) -> str | None:
        """Return why no known machine takes jobs of a kind; None if one does, or no machine has the device."""
        serving, known = self._known(device, None), self._known(device, kind)
        if not serving or self._open(device, kind):
            return None
        if not known:
            return f"none of the machines that rank this leaderboard has {device}"
        which = device if len(known) == len(serving) else f"{device} that may rank this leaderboard"
        affordable = [each for each in known if each.launcher not in self._spent]
        if not affordable:
            until = min(self._spent[each.launcher] for each in known)
            return f"the budget for {device} is used up until {self._moment(until)}"
        states = {state_of(each, self._now) for each in affordable}
        if MachineState.UP in states:
            names = {each.name for each in affordable}
            first = min(
                (each for each in self._keeping(kind) if each.machine in names), key=lambda each: each.ends_at
            )
            what = "under maintenance" if first.board_id is None else "reserved for another leaderboard"
            why = f": {first.reason}" if first.reason else ""
            return f"{device} is {what} until {self._moment(first.ends_at)}{why}"
        if MachineState.DRAINING in states:
            return f"no {which} takes jobs now: its machines end what they have"
        if MachineState.OUT_OF_SERVICE in states:
            return f"{device} is out of service: {next(each.trouble for each in affordable if each.trouble)}"
        seen = [each.seen_at for each in affordable if each.seen_at is not None]
        return f"no {which} is up since {self._moment(max(seen))}" if seen else f"no {which} has been up yet"

    def _moment(self, moment: datetime) -> str:
        is_today = moment.date() == self._now.date()
        return f"{moment:%H:%M} UTC" if is_today else f"{moment:%Y-%m-%d %H:%M} UTC"


def _serving(
    alive: Sequence[dispatchers_rows.DispatcherInfo], device: str
) -> list[dispatchers_rows.DispatcherInfo]:
    return [info for info in alive if info.devices.get(device, 0) > 0]


def _place(before: int) -> str:
    if before > backlog.MOST_COUNTED:
        return f"more than {backlog.MOST_COUNTED} jobs are ahead"
    if before == 0:
        return "next to start"
    return f"{plural(before, 'job is', 'jobs are')} ahead"
