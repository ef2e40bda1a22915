"""Usage: scripts/with-postgres .venv/bin/python benchmarks/fleet_simulation.py [--jobs 20000]

An afternoon of a large event: 400 slots of six kinds on 60 machines, 20,000 jobs of about 30 s that were queued within
an hour, every tenth of them for a whole host; 5 % of the machines are lost for a while, one is drained and one is
reserved. The dispatcher, the tables of the queue and PostgreSQL are real; the machines and the clock are not, so that
it takes minutes.

Prints its figures beside the stored ones, and writes benchmarks/results/fleet-simulation.json.
"""

from __future__ import annotations

import argparse
import cProfile
import heapq
import itertools
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import insert, select, text

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from databases import database_url
from results import machine_facts, publish

from builders import SUBMISSION, make_board, make_report, make_task
from fakes import answer
from kernelcup.app.machines import machines, reservations
from kernelcup.app.queue import attempt, dispatcher, rooms
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.queue.progress import JobRetried, JobReturned, JobStarted, Progress
from kernelcup.domain import Device, Priority, split_count
from kernelcup.engine import migrate
from kernelcup.engine.database import Database
from kernelcup.errors import LaunchLost, NoRoom
from kernelcup.launchers.base import LaunchResult, MachineReading, Order, Polled
from kernelcup.tables import CodeRow, JobRow, RunRow, SubmissionRow, UserRow
from kernelcup_harness.protocol import Backend, Mode

KINDS = {"H100": (20, 8), "H200": (8, 8), "A100": (8, 8), "MI300": (4, 8), "L4": (12, 4), "T4": (8, 4)}
"""Machines, and GPUs on each."""
WANTED = {"H100": 0.46, "H200": 0.2, "A100": 0.12, "MI300": 0.08, "L4": 0.09, "T4": 0.05}
"""The share of the jobs for each kind, which is not that of its GPUs."""
BOARDS, USERS = 4, 300
WHOLE, LOST, RANKED = 0.1, 0.05, 0.3
QUEUED_WITHIN_S, LOST_FOR_S = 3600, 300.0
START = datetime(2026, 1, 1, tzinfo=UTC)
RESERVED_S = (500.0, 700.0)
JOBS = 20_000
LAUNCHER = "simulated"


def whole(kind: str) -> str:
    """Return the device that takes a whole host."""
    return f"{kind}x{KINDS[kind][1]}"


@dataclass
class Host:
    """A machine."""

    kind: str
    gpus: int
    is_up: bool = True
    calls: set[str] = field(default_factory=set)


@dataclass
class Call:
    """A job on its machine."""

    order: Order
    host: str
    wake: Callable[[], None]
    began_s: float
    outcome: LaunchResult | Exception | None = None


class Meter:
    """How busy each kind is while a job waits for it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.waiting: Counter[str] = Counter()
        self.out: set[str] = set()
        """Machines that are drained or reserved."""
        self.busy: Counter[str] = Counter()
        self.offered: Counter[str] = Counter()
        self.at_s = 0.0

    def look(self) -> None:
        """Count the time since the last look."""
        simulation = self.simulation
        passed_s, self.at_s = simulation.now_s - self.at_s, simulation.now_s
        for name, host in simulation.hosts.items():
            if host.is_up and name not in self.out and self.waiting[host.kind] > 0:
                calls = (simulation.calls[each] for each in host.calls)
                self.busy[host.kind] += passed_s * sum(each.order.device.gpus for each in calls)
                self.offered[host.kind] += passed_s * host.gpus

    def hear(self, progress: Progress) -> None:
        """Count the jobs that wait."""
        with self.simulation.fake():
            if isinstance(progress, JobStarted):
                self.waiting[split_count(progress.job.device)[0]] -= 1
            elif isinstance(progress, JobRetried | JobReturned):
                self.waiting[split_count(progress.job.device)[0]] += 1


class Ticks:
    """The event that the dispatcher waits for, in simulated time."""

    def __init__(self, simulation: Simulation) -> None:
        self.wait, self.simulation = simulation.wait, simulation

    def set(self) -> None:
        """Nothing: the next wait ends where something happens."""

    def clear(self) -> None:
        """Nothing, too."""


class Simulation:
    """The machines, and the clock that jumps to what happens next."""

    durable = True

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now_s = 0.0
        self.fakes_s = 0.0
        """The processor time that all of this took, which no real dispatcher spends."""
        self.hosts = {
            f"{kind.lower()}-{number}": Host(kind=kind, gpus=gpus)
            for kind, (count, gpus) in KINDS.items()
            for number in range(count)
        }
        self.calls: dict[str, Call] = {}
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.report = make_report([1000.0])
        self.meter = Meter(self)

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self.events, (seconds, next(self.numbers), event))

    def clock(self) -> datetime:
        """Return the simulated time."""
        return START + timedelta(seconds=self.now_s)

    def wait(self, seconds: float) -> None:
        """Let time pass until something happens, at most so long."""
        with self.fake():
            until = self.now_s + max(seconds, 0.001)
            is_next = bool(self.events) and self.events[0][0] < until
            self.now_s = max(self.events[0][0], self.now_s) if is_next else until
            self.meter.look()
            if is_next:
                heapq.heappop(self.events)[2]()

    @contextmanager
    def fake(self) -> Iterator[None]:
        """Count the time of a fake."""
        begun = time.thread_time()
        yield
        self.fakes_s += time.thread_time() - begun

    def capacity(self, device: Device) -> int:
        """Return how many jobs of a device fit on all machines."""
        with self.fake():
            return sum(self._free(host, device) for host in self.hosts.values())

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return the machines that are up."""
        with self.fake():
            kinds = {device.model for device in devices}
            return [
                MachineReading(
                    name=name,
                    slots={host.kind: host.gpus},
                    free={device.name: self._free(host, device) for device in devices},
                )
                for name, host in self.hosts.items()
                if host.is_up and host.kind in kinds
            ]

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:
        """Begin a job on the fullest machine with room."""
        with self.fake():
            assert order.machines is not None
            free = [(self._free(self.hosts[name], order.device), name) for name in order.machines]
            found = [each for each in free if each[0] > 0]
            if not found:
                raise NoRoom("no machine has room")
            name, host = f"call-{next(self.numbers)}", min(found)[1]
            self.calls[name] = Call(order=order, host=host, wake=wake, began_s=self.now_s)
            self.hosts[host].calls.add(name)
            self.at(self.now_s + self.chance.uniform(24.0, 36.0), lambda: self._end(name))
            return name

    def poll(self, calls: Collection[str]) -> Mapping[str, Polled]:
        """Return the outcomes."""
        with self.fake():
            lost = Polled(outcome=LaunchLost("unknown"))
            found = ((name, self.calls.get(name)) for name in calls)
            return {
                name: lost if call is None else Polled(outcome=call.outcome, machine=call.host)
                for name, call in found
            }

    def cancel(self, call: str) -> None:
        """Forget a call."""
        with self.fake():
            self.hosts[self.calls.pop(call).host].calls.discard(call)

    def lose(self, name: str, seconds: float) -> None:
        """Lose a machine with its jobs, for a while."""
        host = self.hosts[name]
        host.is_up = False
        for each in list(host.calls):
            call = self.calls[each]
            if call.outcome is None:
                call.outcome = LaunchLost(f"machine {name} was lost")
                call.wake()
        host.calls.clear()
        self.at(self.now_s + seconds, lambda: setattr(host, "is_up", True))

    def _free(self, host: Host, device: Device) -> int:
        if not host.is_up or host.kind != device.model:
            return 0
        return (host.gpus - sum(self.calls[each].order.device.gpus for each in host.calls)) // device.gpus

    def _end(self, name: str) -> None:
        call = self.calls.get(name)
        if call is None or call.outcome is not None:
            return
        call.outcome = LaunchResult(
            report=answer(call.order.spec, self.report),
            machine=call.host,
            harness_hash=call.order.harness_hash,
        )
        self.hosts[call.host].calls.discard(name)
        call.wake()


def main() -> None:
    """Simulate, count, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", help="file for a profile of the dispatcher (cProfile)")
    given = parser.parse_args()
    simulation = Simulation(random.Random(given.seed))
    with Database.open(database_url("postgresql", Path())) as db:
        fill(db, simulation, given.jobs)
        began, fakes, wall = time.thread_time(), simulation.fakes_s, time.monotonic()
        run(db, simulation, given.jobs / JOBS, given.profile)
        used_s = time.thread_time() - began - (simulation.fakes_s - fakes)
        result = count(db, simulation) | {
            "jobs": given.jobs,
            "simulated_s": simulation.now_s,
            "took_s": time.monotonic() - wall,
            "dispatcher_cores": used_s / simulation.now_s,
            "dispatcher_ms_per_job": 1000 * used_s / given.jobs,
        }
    publish("fleet-simulation.json", result | machine_facts())


def fill(db: Database, simulation: Simulation, count: int) -> None:
    """Make boards, people, and the jobs that wait at the start."""
    migrate.upgrade(db)
    names = [name for kind in KINDS for name in (kind, whole(kind))]
    boards = [
        make_board(db, name=f"board-{number}", task=make_task(), devices=names, now=START)
        for number in range(BOARDS)
    ]
    make_board(db, name="final", task=make_task(), devices=names, now=START)
    chance, last = simulation.chance, defaultdict(Counter[int])
    code = {"hash": "c", "files": {"": SUBMISSION}}
    people = [
        {"id": 10 + number, "name": f"u{number}", "name_key": f"u{number}", "created_at": START}
        for number in range(USERS)
    ]
    submissions, jobs = [], []
    for number in range(1, count + 1):
        kind = chance.choices(list(WANTED), list(WANTED.values()))[0]
        device = whole(kind) if chance.random() < WHOLE else kind
        is_ranked = chance.random() < RANKED
        mode = Mode.LEADERBOARD if is_ranked else Mode.TEST
        priority = Priority.RANKED if is_ranked else Priority.PRACTICE
        user = 10 + min(int(chance.expovariate(1 / 60)), USERS - 1)
        at = START - timedelta(seconds=QUEUED_WITHIN_S * (1 - number / count))
        board = boards[chance.randrange(BOARDS)]
        submissions.append(
            {
                "id": number,
                "leaderboard_id": board.id,
                "user_id": user,
                "code_hash": "c",
                "file_name": "kernel.py",
                "mode": mode.value,
                "created_at": at,
            }
        )
        turns = last[device, priority]
        jobs.append(
            {
                "id": number,
                "submission_id": number,
                "user_id": user,
                "leaderboard_id": board.id,
                "task_hash": board.task_hash,
                "device": device,
                "mode": mode.value,
                "state": "queued",
                "priority": int(priority),
                "turn": turns[user],
                "created_at": at,
                "queued_at": at,
            }
        )
        turns[user] += 1
        simulation.meter.waiting[kind] += 1
    with db.write() as session:
        for table, rows in (
            (CodeRow, [code]),
            (UserRow, people),
            (SubmissionRow, submissions),
            (JobRow, jobs),
        ):
            session.execute(insert(table), rows)
        for table in ("users", "submissions", "jobs"):
            session.execute(
                text(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))")
            )
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def run(db: Database, simulation: Simulation, scale: float, profile: str | None) -> None:
    """Judge everything."""
    for module in (dispatcher, rooms, attempt):
        module.time = SimpleNamespace(monotonic=lambda: simulation.now_s)  # type: ignore[attr-defined]
    devices = [
        Device(
            name=name,
            backend=Backend.CUDA,
            launcher=LAUNCHER,
            slots=machines_of * (gpus if name == kind else 1),
        )
        for kind, (machines_of, gpus) in KINDS.items()
        for name in (kind, whole(kind))
    ]
    told = simulation.meter.hear
    loop = Dispatcher(
        db, devices=devices, launchers={LAUNCHER: simulation}, clock=simulation.clock, on_progress=told
    )
    loop._wake = Ticks(simulation)  # type: ignore[assignment]
    plan(db, simulation, scale)
    if profile is None:
        loop.run_until_idle()
        return
    with cProfile.Profile() as found:
        loop.run_until_idle()
    found.dump_stats(profile)


def plan(db: Database, simulation: Simulation, scale: float) -> None:
    """Say what happens to the machines; with fewer jobs all of it is over sooner."""
    chance, names = simulation.chance, list(simulation.hosts)
    for name in chance.sample(names, round(LOST * len(names))):
        simulation.at(scale * chance.uniform(100, 1000), partial(simulation.lose, name, scale * LOST_FOR_S))
    out = simulation.meter.out

    def drain(is_draining: bool) -> None:
        machines.change(db, "h100-3", is_draining=is_draining, now=simulation.clock())
        (out.add if is_draining else out.discard)("h100-3")

    simulation.at(scale * 400.0, partial(drain, True))
    simulation.at(scale * 800.0, partial(drain, False))
    final = [f"h200-{number}" for number in range(4)]
    reserved_s = [scale * seconds for seconds in RESERVED_S]
    begins, ends = (START + timedelta(seconds=seconds) for seconds in reserved_s)
    note = {"board": "final", "begins_at": begins, "ends_at": ends, "now": START}
    simulation.at(1.0, lambda: reservations.reserve(db, final, **note))  # type: ignore[arg-type]
    simulation.at(reserved_s[0], partial(out.update, final))
    simulation.at(reserved_s[1], partial(out.difference_update, final))


def count(db: Database, simulation: Simulation) -> dict[str, Any]:
    """Return what came out."""
    query = select(JobRow.device, RunRow.started_at, RunRow.attempt).join(RunRow, RunRow.job_id == JobRow.id)
    waits: dict[bool, list[float]] = {True: [], False: []}
    retried = 0
    with db.read() as session:
        open_jobs = session.execute(text("SELECT count(*) FROM jobs WHERE state <> 'done'")).scalar_one()
        for device, started_at, number in session.execute(query):
            waits[split_count(device)[1] > 1].append((started_at - START).total_seconds())
            retried += number > 1
    every = [*waits[True], *waits[False]]
    meter = simulation.meter
    return {
        "not_judged": open_jobs,
        "runs": len(every),
        "retried": retried,
        "busy_while_work_waits": {kind: meter.busy[kind] / max(meter.offered[kind], 1) for kind in KINDS},
        "mean_wait_s": statistics.fmean(every),
        "mean_wait_whole_s": statistics.fmean(waits[True]),
        "mean_wait_whole_by_mean": statistics.fmean(waits[True]) / statistics.fmean(every),
        "longest_wait_whole_by_mean": max(waits[True]) / statistics.fmean(every),
    }


if __name__ == "__main__":
    main()
