"""Usage: service_load.py sqlite|postgresql [--seconds 60] [--rate 102] [--processes 2] [--pages 0]

A whole service under load on one machine, database and load generator included: submissions at a
fixed rate, of 8 kB each, 500 clients that follow live events, readers of standings and lists, a dispatcher that
claims and finishes; all on a database with 1,000,000 submissions and 100,000 queued jobs. The clients
that follow come before the measured time, so that all of them are there during all of it.

PostgreSQL writes through to the disk here: scripts/with-postgres is told POSTGRES_FSYNC=on.

A latency counts from the moment at which a request was due, so a server that stands still is not
flattered. With --pages, so many pages of the site a second are read as well: 27 are a fifth of all requests.
Prints its figures beside the stored ones, and writes benchmarks/results/service-load-DATABASE.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from databases import database_url
from fill_database import BOARDS, DEVICES, fill
from http_client import Connection, events
from results import ROOT, machine_facts, percentile, processor_s, publish

from builders import make_report
from kernelcup.app.access import HERE
from kernelcup.app.people.tokens import create_token
from kernelcup.app.queue import lifecycle
from kernelcup.domain import OPERATOR, Scope
from kernelcup.engine.database import Database

CODE_BYTES = 8000
CODE = (ROOT / "src/kernelcup_harness/core/plan.py").read_text()[:CODE_BYTES]
"""As long as kernels are that people write, and as rich in calls."""
USERS = 200
WARM_UP_S = 24.0
WATCHERS = 500
CONNECTIONS = 64


def main() -> None:
    """Measure, print a summary, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("database", choices=["sqlite", "postgresql"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=102.0, help="submissions a second")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--pages", type=float, default=0.0, help="pages of the site a second")
    parser.add_argument("--submissions", type=int, default=1_000_000)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--watchers", type=int, default=WATCHERS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelcup-load-") as folder:
        url = database_url(given.database, Path(folder))
        with Database.open(url) as db:
            fill(db, submissions=given.submissions, queued=given.queued)
            tokens = make_tokens(db)
        result = run(url, tokens, given, Path(folder))
    result |= {"database": given.database, "submissions": given.submissions, "queued": given.queued}
    result |= {"pages_per_s": given.pages}
    result |= machine_facts()
    pages = "-pages" if given.pages else ""
    publish(f"service-load{pages}-{given.database}.json", result)


def make_tokens(db: Database) -> list[str]:
    """Return a token for each of some users."""
    now = datetime.now(UTC)
    scopes = frozenset({Scope.READ, Scope.SUBMIT})
    return [
        create_token(
            db, OPERATOR, name="load", scopes=scopes, entry=HERE, now=now, for_user=f"user-{number + 10}"
        ).secret
        for number in range(USERS)
    ]


def run(url: str, tokens: list[str], given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start the service and the dispatcher, load them, and return the figures."""
    processes = given.processes
    environ = {**os.environ, "KERNELCUP_DATABASE": url, "KERNELCUP_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", "0"]
    command += ["--processes", str(processes)]
    claims = folder / "claims.json"
    stop = multiprocessing.get_context("spawn").Event()
    judge = multiprocessing.get_context("spawn").Process(target=work, args=[url, stop, str(claims)])
    with (
        (folder / "server.log").open("wb") as log,
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log) as server,
    ):
        try:
            base = wait_for_url(server)
            judge.start()
            figures = asyncio.run(load(base, tokens, given, processes_of(server.pid, judge.pid)))
        finally:
            stop.set()
            server.terminate()
            if judge.pid is not None:
                judge.join(60)
    return figures | {"processes": processes, "claim_ms": json.loads(claims.read_text())}


def wait_for_url(server: subprocess.Popen[bytes]) -> str:
    """Return where the server listens."""
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith(b"listening on "):
            return line.decode().split()[-1]
    raise RuntimeError("the server ended")


def work(url: str, stop: Any, out: str) -> None:
    """Claim and finish jobs, as a dispatcher does whose launcher takes no time; note how long claims take."""
    taken = []
    report = make_report([1000.0] * 5)
    with Database.open(url) as db:
        while not stop.is_set():
            begun = time.perf_counter()
            now = datetime.now(UTC)
            lease = lifecycle.claim_next(db, owner="load", lease_s=60, devices=DEVICES[:1], now=now)
            taken.append((time.perf_counter() - begun) * 1000)
            if lease is not None:
                lifecycle.finish(
                    db, lease, report=report, harness_hash="f", machine="m", now=datetime.now(UTC)
                )
            time.sleep(0.2)
    Path(out).write_text(json.dumps(summary(taken)))


def summary(values: list[float]) -> dict[str, float]:
    """Return how many, median, 95th percentile and largest."""
    return {
        "count": len(values),
        "p50": round(percentile(values, 50), 2),
        "p95": round(percentile(values, 95), 2),
        "max": round(max(values, default=0.0), 2),
    }


class Load:
    """What the clients measured."""

    def __init__(self, base: str, tokens: list[str]) -> None:
        self.base = base
        self.tokens = tokens
        self.latencies: dict[str, list[float]] = {}
        self.accepted: list[tuple[int, str]] = []
        self.errors: dict[str, int] = {}
        self.events = 0
        self.last_accepted = 0.0
        self.watching = 0

    async def call(
        self, kind: str, pool: asyncio.Queue[Connection], due: float, method: str, path: str, **more: Any
    ) -> Any:
        """Send one request when it is due, on a connection that is free, and note how long it took."""
        connection = await pool.get()
        connection.token = more.pop("token", connection.token)
        try:
            status, body = await connection.request(method, path, **more)
        except ConnectionError as error:
            status, body = 0, str(error)
        finally:
            pool.put_nowait(connection)
        self.latencies.setdefault(kind, []).append((time.perf_counter() - due) * 1000)
        if status not in (200, 201):
            key = f"{kind} {status} {str(body)[:120]}"
            self.errors[key] = self.errors.get(key, 0) + 1
            return None
        return body


def processes_of(server: int, judge: int | None) -> dict[str, list[int]]:
    """Return the processes that have to do with the load, by what they are."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return {"serve": [server, *map(int, children)], "judge": [judge or 0], "load": [os.getpid()]}


def processor_of(processes: dict[str, list[int]]) -> dict[str, float]:
    """Return the processor time that each kind of process has had, in seconds."""
    return {name: sum(processor_s(pid) for pid in pids) for name, pids in processes.items()}


async def load(
    base: str, tokens: list[str], given: argparse.Namespace, processes: dict[str, list[int]]
) -> dict[str, Any]:
    """Run all clients for the time given."""
    load = Load(base, tokens)
    pool = connections(base, tokens[0], CONNECTIONS)
    readers = connections(base, tokens[0], 8)
    watchers = await gather_watchers(load, pool, given)
    load.latencies.clear()
    load.accepted.clear()
    before = processor_of(processes)
    begun = time.perf_counter()
    end = begun + given.seconds
    await asyncio.gather(
        submissions(load, pool, given.rate, end),
        reads(load, readers, "standings", 2.0, end, standings_path),
        reads(load, readers, "list", 2.0, end, list_path),
        reads(load, connections(base, "", 16), "page", given.pages, end, page_path),
    )
    lasted = time.perf_counter() - begun
    used = {name: (s - before[name]) / lasted for name, s in processor_of(processes).items()}
    for task in watchers:
        task.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    figures = {f"{kind}_ms": summary(values) for kind, values in load.latencies.items()}
    # What was due in time and accepted late counts with the time that it took.
    rate = len(load.accepted) / max(given.seconds, load.last_accepted - begun)
    return figures | {
        "accepted_per_s": round(rate, 1),
        "seconds": given.seconds,
        "processors_used": {name: round(cores, 3) for name, cores in used.items()},
        "watchers": load.watching,
        "events_received": load.events,
        "errors": load.errors,
    }


async def gather_watchers(
    load: Load, pool: asyncio.Queue[Connection], given: argparse.Namespace
) -> list[asyncio.Task[None]]:
    """Have some submissions made by everybody, and return once all watchers follow one of them."""
    until = time.perf_counter() + WARM_UP_S + given.seconds
    await submissions(load, pool, 20.0, time.perf_counter() + WARM_UP_S / 2)
    tasks = [asyncio.create_task(watch(load, number, until)) for number in range(given.watchers)]
    await asyncio.sleep(WARM_UP_S / 2)
    return tasks


def connections(base: str, token: str, count: int) -> asyncio.Queue[Connection]:
    """Return a pool of connections."""
    pool: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(count):
        pool.put_nowait(Connection(base, token))
    return pool


async def submissions(load: Load, pool: asyncio.Queue[Connection], rate: float, end: float) -> None:
    """Submit at a fixed rate."""
    tasks = []
    start = time.perf_counter()
    number = 0
    while (due := start + number / rate) < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(submit(load, pool, due, number)))
        number += 1
    await asyncio.gather(*tasks)


async def submit(load: Load, pool: asyncio.Queue[Connection], due: float, number: int) -> None:
    """Submit once."""
    token = load.tokens[number % len(load.tokens)]
    body = {
        "leaderboard": f"board-{number % BOARDS}",
        "devices": [DEVICES[0]],
        "mode": "test" if number % 2 else "leaderboard",
        "code": f"# {number % 1000}\n{CODE}",
    }
    headers = {"Idempotency-Key": f"load-{due}-{number}"}
    made = await load.call(
        "submit", pool, due, "POST", "/api/v1/submissions", body=body, headers=headers, token=token
    )
    if made is not None:
        load.accepted.append((made["id"], token))
        load.last_accepted = time.perf_counter()


async def reads(
    load: Load, pool: asyncio.Queue[Connection], kind: str, rate: float, end: float, path: Any
) -> None:
    """Read at a fixed rate."""
    start, number, tasks = time.perf_counter(), 0, []
    while rate and (due := start + number / rate) < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(load.call(kind, pool, due, "GET", path(number))))
        number += 1
    await asyncio.gather(*tasks)


def standings_path(number: int) -> str:
    """Return the address of one of the rankings."""
    return f"/api/v1/leaderboards/board-{number % BOARDS}/standings/{DEVICES[number % 2]}"


def page_path(number: int) -> str:
    """Return the address of one of the pages that people read most."""
    return ("/", f"/b/board-{number % BOARDS}", f"/s/{1003 + number}", "/queue")[number % 4]


def list_path(number: int) -> str:
    """Return the address of one of the lists."""
    which = (f"?leaderboard=board-{number % BOARDS}", "", "?user=me")[number % 3]
    return f"/api/v1/submissions{which}"


async def watch(load: Load, number: int, end: float) -> None:
    """Follow one submission after the other."""
    await asyncio.sleep(number / 50)  # all of them within ten seconds
    load.watching += 1
    while time.perf_counter() < end:
        if not load.accepted:
            await asyncio.sleep(0.1)
            continue
        submission, token = load.accepted[-1 - number % min(len(load.accepted), 50)]
        try:
            async for _ in events(load.base, token, f"/api/v1/submissions/{submission}/events"):
                load.events += 1
        except OSError as error:
            load.errors[f"events {error}"] = load.errors.get(f"events {error}", 0) + 1
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    main()
