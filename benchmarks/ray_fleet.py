"""Usage: ray_fleet.py crash|overhead [--jobs 200] [--turns 10]

``crash``: real jobs in test mode on three emulated devices, judged by a real Ray cluster of a head and three nodes on
this machine. One node is killed with SIGKILL twice and the head once while they run; what has died is started again.
At the end it counts: every job has ended once, with one run.

``overhead``: the time from a job to its verdict with warm processes, in turns: on this machine without an engine, and
through an agent on loopback, which Ray has started; and the processor time of the agent's server while it is idle.

Prints its figures beside the stored ones, and writes benchmarks/results/ray-WHAT.json. Exit code 1 where something
was lost or doubled.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fleet"))

from ray_cluster import RayCluster, children
from results import machine_facts, processor_s, publish

from builders import make_board, make_spec, make_submission, make_task
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.domain import Device
from kernelcup.engine.database import Database
from kernelcup.launchers.base import Launcher, LaunchResult, Order
from kernelcup.launchers.bundle import harness_hash
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.protocol import Backend, Limits, Mode, Verdict

NODES: dict[str, dict[str, int]] = {
    "head": {},
    "n1": {"A": 1, "B": 1},
    "n2": {"A": 1, "C": 1},
    "n3": {"B": 1, "C": 1},
}
LONGEST_S = 1800.0
IDLE_S = 20.0
CODE = "def custom_kernel(data):\n    # {number}\n    return data * 2\n"


def main() -> int:
    """Measure, count, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["crash", "overhead"])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--turns", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kc-") as folder:  # short: sockets lie below it
        result = (
            crash(Path(folder), given.jobs) if given.what == "crash" else overhead(Path(folder), given.turns)
        )
    publish(f"ray-{given.what}.json", result | machine_facts() | {"load_at_end": os.getloadavg()[1]})
    return 0 if result["fine"] else 1


def crash(folder: Path, jobs: int) -> dict[str, Any]:
    """Judge jobs while nodes and the head are killed."""
    cluster = RayCluster(folder=folder / "c", devices=NODES)
    devices = [device(name, slots=2, launcher="ray") for name in "ABC"]
    with running(cluster), Database.open(cluster.database) as db:
        queue_jobs(db, devices, jobs)
        launcher = cluster.launcher(db)
        cluster.wait(launcher)
        stop = threading.Event()
        dispatcher = Dispatcher(db, devices=devices, launchers={"ray": launcher})
        work = threading.Thread(target=dispatcher.run_forever, args=(stop,))
        begun = time.monotonic()
        work.start()
        try:
            kills = kill_all(db, cluster, jobs)
            wait_for(db, cluster, jobs)
        finally:
            seconds = round(time.monotonic() - begun)
            stop.set()
            work.join()
            launcher.close()
        return {**count(db, jobs), "jobs": jobs, "kills": kills, "seconds": seconds}


def queue_jobs(db: Database, devices: list[Device], jobs: int) -> None:
    """Submit in test mode, to the devices in turn."""
    now = datetime.now(UTC)
    make_board(db, name="double", task=make_task(), devices=[each.name for each in devices], now=now)
    for number in range(jobs):
        where = devices[number % len(devices)].name
        make_submission(
            db, content=CODE.format(number=number).encode(), devices=[where], mode=Mode.TEST, now=now
        )


def kill_all(db: Database, cluster: RayCluster, jobs: int) -> dict[str, int]:
    """Kill a node at a sixth and at two sixths of the jobs, and the head at a half; return how many each."""
    for share, name, programs in (
        (1 / 6, "n2", ("raylet",)),
        (2 / 6, "n2", ("raylet",)),
        (3 / 6, "head", ("gcs_server", "raylet")),
    ):
        wait_for(db, cluster, int(jobs * share))
        print(f"{ended(db)} jobs have ended; killing {', '.join(programs)} of {name}", flush=True)
        cluster.nodes[name].kill(*programs)
    return {"node": 2, "head": 1}


def wait_for(db: Database, cluster: RayCluster, jobs: int) -> None:
    """Wait until so many jobs have ended, and start again what has died, as systemd would."""
    until, told = time.monotonic() + LONGEST_S, 0.0
    while (number := ended(db)) < jobs:
        if time.monotonic() > until:
            raise TimeoutError(f"{number} of {jobs} jobs have ended")
        if time.monotonic() - told > 15:
            told = time.monotonic()
            print(f"{number} jobs have ended", flush=True)
        revive(cluster)
        time.sleep(0.5)


def revive(cluster: RayCluster) -> None:
    """Start the nodes again whose `ray start` has ended, the head first."""
    dead = [name for name in cluster.devices if not cluster.nodes[name].is_up()]
    for name in dead:
        with contextlib.suppress(TimeoutError):  # tried again at the next look
            cluster.start_node(name)


def ended(db: Database) -> int:
    """Return how many jobs have ended."""
    with db.read() as session:
        query = "SELECT count(*) FROM jobs WHERE state NOT IN ('queued', 'running')"
        return int(session.scalar(text(query)) or 0)


def count(db: Database, jobs: int) -> dict[str, Any]:
    """Compare what was submitted with what is stored."""
    with db.read() as session:
        runs = session.execute(
            text(
                "SELECT j.id, count(r.id) FROM jobs j LEFT JOIN runs r ON r.job_id = j.id AND r.counted GROUP BY j.id"
            )
        ).all()
        verdicts = dict(
            session.execute(text("SELECT verdict, count(*) FROM runs WHERE counted GROUP BY verdict")).all()
        )
        attempts = dict(session.execute(text("SELECT attempt, count(*) FROM jobs GROUP BY attempt")).all())
        where = dict(session.execute(text("SELECT machine, count(*) FROM runs GROUP BY machine")).all())
    lost = jobs - sum(number > 0 for _, number in runs)
    doubled = sum(number > 1 for _, number in runs)
    accepted = verdicts.get(Verdict.ACCEPTED.value, 0)
    return {
        "lost": lost,
        "doubled": doubled,
        "verdicts": verdicts,
        "attempts": {str(key): number for key, number in attempts.items()},
        "machines": where,
        "fine": lost == 0 and doubled == 0 and accepted == jobs,
    }


def overhead(folder: Path, turns: int) -> dict[str, Any]:
    """Compare two launchers with a warm process each, in turns."""
    cluster = RayCluster(folder=folder / "c", devices={"head": {"W": 1}})
    local = LocalLauncher(runtime_dir=folder / "run", environ=os.environ, warm=1)
    local.keep_ready([device("W")])
    with running(cluster), Database.open(cluster.database) as db:
        agents = cluster.launcher(db)
        cluster.wait(agents)
        ways: dict[str, Launcher] = {"local": local, "agent": agents}
        pids = [os.getpid(), cluster.nodes["head"].agent()]
        found: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(turns + 1):  # the first one warms up what is not a process
            for name, launcher in ways.items():
                if turn:
                    settle(pids)
                seconds = verdict_s(launcher, f"{turn}.1")
                if turn:
                    found[name].append(seconds)
                print(f"{turn} {name} {seconds:.3f} s", flush=True)
        idle_share = idle(cluster.processes[0].pid)
        agents.close()
    local.close()
    more = [each - own for each, own in zip(found["agent"], found["local"], strict=True)]
    return {
        "turns": turns,
        "seconds": {name: spread(each) for name, each in found.items()},
        "more_than_local_s": spread(more),
        "idle_server_share": idle_share,
        "fine": statistics.median(more) <= 0.1,
    }


def idle(pid: int) -> float:
    """Return the share of a core that a process takes while no job runs."""
    begun, before = time.monotonic(), processor_s(pid)
    time.sleep(IDLE_S)
    return round((processor_s(pid) - before) / (time.monotonic() - begun), 4)


def spread(values: list[float]) -> dict[str, float]:
    """Return the median and the extremes."""
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }


def verdict_s(launcher: Launcher, job: str) -> float:
    """Return how long a job takes, asked for as a dispatcher does."""
    spec = make_spec(job_id=job, limits=Limits(import_s=60, test_s=60, benchmark_s=60, ranked_s=60))
    order, news = Order(spec=spec, device=device("W"), harness_hash=harness_hash()), threading.Event()
    begun = time.monotonic()
    call = launcher.start(order, wake=news.set)
    while (polled := launcher.poll([call]).get(call)) is None or polled.outcome is None:
        news.wait(0.5)
        news.clear()
    seconds = time.monotonic() - begun
    launcher.cancel(call)
    assert isinstance(polled.outcome, LaunchResult), polled.outcome
    assert polled.outcome.report.verdict is Verdict.ACCEPTED, polled.outcome.report
    return seconds


def settle(pids: list[int]) -> None:
    """Wait until no warm process starts, of this way or of the one before: until nothing has worked for a second."""
    before: dict[int, float] = {}
    while not (now := {key: value for pid in pids for key, value in worked_s(pid).items()}) or now != before:
        before = now
        time.sleep(1)


def worked_s(pid: int) -> dict[int, float]:
    """Return the processor time of each process of the harness below one, in hundredths."""
    found = {}
    for child in children(pid):
        with contextlib.suppress(OSError):
            if b"kernelcup_harness" in Path(f"/proc/{child}/cmdline").read_bytes():
                found[child] = round(processor_s(child), 2)
        found |= worked_s(child)
    return found


@contextlib.contextmanager
def running(cluster: RayCluster) -> Iterator[None]:
    """Provide a cluster."""
    try:
        cluster.start()
        yield
    finally:
        cluster.stop()


def device(name: str, *, slots: int = 1, launcher: str = "local") -> Device:
    """Return an emulated device."""
    return Device(name=name, backend=Backend.EMULATED, slots=slots, launcher=launcher)


if __name__ == "__main__":
    sys.exit(main())
