"""Usage: service_crash.py sqlite|postgresql [--kills 200] [--pause 2]

Kills parts of a running service with SIGKILL at random moments while clients submit: HTTP servers,
dispatchers with a quick made-up machine, dispatchers with the real harness, an agent, the harness's own
processes below both, and PostgreSQL itself. Everything that dies is started again. At the end it counts: every
accepted submission has one row, each of its jobs one run that counts, the standings are what the runs say, and
since every submission is right, none has another verdict than accepted and no job waits for an admin.

Prints its figures beside the stored ones, and writes benchmarks/results/service-crash-DATABASE.json. Exit code 1
where something was lost or doubled, or cost a participant an attempt.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from databases import database_url, restart_postgres
from http_client import Connection
from results import ROOT, machine_facts, publish

from builders import make_board, make_task
from kernelcup.app.access import HERE
from kernelcup.app.machines import machines
from kernelcup.app.people.accounts import make_user
from kernelcup.app.people.tokens import create_token
from kernelcup.domain import OPERATOR, Role, Scope
from kernelcup.engine import migrate
from kernelcup.engine.database import Database

USERS = 8
CLIENTS = 4
FAST = "fast"
REAL = "cpu"
LENT = "lent"
CODE = "def custom_kernel(data):\n    # {number}\n    return data * 2\n"
PARTS = ("http", "dispatcher", "dispatcher", "real", "agent", "harness", "harness", "harness")
AT_WORK = ("real", "agent")
"""Of these a process is killed, or one below it, while it judges or calibrates."""
EACH = 12
"""Of so many submissions of a client one goes to the real harness, and one to the agent."""
LONGEST_WAIT_S = 600


class Part:
    """A process that is started again whenever it has died."""

    def __init__(self, command: list[str], environ: dict[str, str], log: Path) -> None:
        self.command = command
        self.environ = environ
        self.log = log
        self.process = self._start()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def look(self) -> None:
        """Start it again if it has died."""
        if self.process.poll() is not None:
            self.process = self._start()

    def end(self) -> None:
        """End it for good."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(self.command, env=self.environ, stdout=log, stderr=log)


def main() -> None:
    """Kill, count, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("database", choices=["sqlite", "postgresql"])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=2.0, help="Most seconds between two kills.")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="kernelcup-crash-") as folder:
        url = database_url(given.database, Path(folder))
        with Database.open(url) as db:
            tokens, agent = prepare(db)
        result = asyncio.run(storm(url, tokens, agent, given, Path(folder), chance))
        with Database.open(url) as db:
            result |= count(db, result.pop("answered"))
    result |= {"database": given.database} | machine_facts()
    bad = ("lost", "doubled", "unjudged", "wrong_bests", "not_accepted", "halted")
    result["fine"] = not any(result[name] for name in bad)
    publish(f"service-crash-{given.database}.json", result)
    sys.exit(0 if result["fine"] else 1)


def prepare(db: Database) -> tuple[list[str], str]:
    """Make a board and people; return their tokens, and that of a machine's agent."""
    migrate.upgrade(db)
    now = datetime.now(UTC)
    task = make_task(sources={"reference.py": REFERENCE})
    make_board(db, name="double", task=task, devices=[FAST, REAL, LENT], now=now)
    scopes = frozenset({Scope.READ, Scope.SUBMIT})
    for number in range(USERS):
        make_user(db, OPERATOR, f"user-{number}", role=Role.PARTICIPANT, now=now)
    given = {"name": "crash", "scopes": scopes, "entry": HERE, "now": now}
    tokens = [
        create_token(db, OPERATOR, **given, for_user=f"user-{number}").secret for number in range(USERS)
    ]
    return tokens, machines.add_agent(db, "lab", now=now).token


REFERENCE = """\
import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data * 2


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> str:
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""


def start_parts(url: str, agent: str, folder: Path, port: int) -> dict[str, Part]:
    """Start a server, a dispatcher for the made-up device, one with the real harness, and an agent."""
    config, lent = folder / "kernelcup.toml", folder / "lent.toml"
    device = '[[devices]]\nname = "{}"\nbackend = "cpu"\n'
    config.write_text(device.format(REAL) + device.format(LENT) + 'launcher = "agent"\n')
    lent.write_text(device.format(LENT))
    environ = {
        **os.environ,
        "KERNELCUP_DATABASE": url,
        "KERNELCUP_HOME": str(folder / "home"),
        "KERNELCUP_RUNTIME": str(folder / "run"),
        "KERNELCUP_CONFIG": str(config),
        "KERNELCUP_SECRET": "x" * 64,
    }
    apart = {
        **os.environ,
        "KERNELCUP_HOME": str(folder / "lent"),
        "KERNELCUP_RUNTIME": str(folder / "lent-run"),
        "KERNELCUP_CONFIG": str(lent),
        "KERNELCUP_AGENT_TOKEN": agent,
    }
    serve = [sys.executable, "-m", "kernelcup", "serve"]
    runner = [sys.executable, "-m", "kernelcup", "runner", "agent", f"http://127.0.0.1:{port}"]
    fast = [sys.executable, str(ROOT / "benchmarks/fast_dispatcher.py"), url, FAST]
    return {
        "http": Part([*serve, "--no-judge", "--port", str(port)], environ, folder / "http.log"),
        "dispatcher": Part(fast, environ, folder / "dispatcher.log"),
        "real": Part([*serve, "--no-http"], environ, folder / "real.log"),
        "agent": Part(runner, apart, folder / "agent.log"),
    }


async def storm(
    url: str, tokens: list[str], agent: str, given: argparse.Namespace, folder: Path, chance: random.Random
) -> dict[str, Any]:
    """Submit and kill; return what was answered and what was done."""
    port = free_port()
    parts = start_parts(url, agent, folder, port)
    stop = asyncio.Event()
    answered: dict[str, int] = {}
    refused: dict[str, int] = {}
    base = f"http://127.0.0.1:{port}"
    clients = [
        asyncio.create_task(client(base, tokens, number, stop, answered, refused, given.seed + number))
        for number in range(CLIENTS)
    ]
    begun = time.monotonic()
    try:
        kills = await kill_all(parts, base, given, chance, restarter(given.database))
        stop.set()
        await asyncio.gather(*clients)
        drained = await drain(url, parts)
    finally:
        for part in parts.values():
            part.end()
    return {
        "answered": answered,
        "accepted": len(answered),
        "refused": refused,
        "kills": kills,
        "seconds": round(time.monotonic() - begun),
        "drained": drained,
    }


def restarter(database: str) -> Callable[[], None] | None:
    """Return what restarts the database, None for one that has no server."""
    return restart_postgres if database == "postgresql" else None


async def answers(base: str) -> bool:
    """Tell whether the server serves requests."""
    connection = Connection(base, "")
    try:
        status, _ = await asyncio.wait_for(connection.request("GET", "/api/v1/devices"), 5)
    except (ConnectionError, TimeoutError):
        return False
    finally:
        connection.close()
    return status < 500


async def kill_all(
    parts: dict[str, Part],
    base: str,
    given: argparse.Namespace,
    chance: random.Random,
    restart: Callable[[], None] | None,
) -> dict[str, int]:
    """Kill processes at random moments; return the number of kills of each kind."""
    kills: dict[str, int] = {}
    while not await answers(base):  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    while sum(kills.values()) < given.kills:
        await asyncio.sleep(chance.uniform(0.0, given.pause))
        kind = chance.choice(PARTS)
        if kind == "http" and not await answers(base):
            continue  # it is being started: a server that is never up has nothing to lose
        if kind in AT_WORK and not descendants(parts[kind].process.pid):
            continue  # it judges nothing now
        if kind == "harness":
            if not kill_harness(parts[chance.choice(AT_WORK)].process.pid, chance):
                continue
        else:
            parts[kind].kill()
        kills[kind] = kills.get(kind, 0) + 1
        if restart is not None and sum(kills.values()) % 15 == 0:
            restart()
            kills["database"] = kills.get("database", 0) + 1
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        for part in parts.values():
            part.look()
    return kills


def kill_harness(dispatcher: int, chance: random.Random) -> bool:
    """Kill one of the descendants of a dispatcher or an agent; return whether there was one."""
    found = descendants(dispatcher)
    if not found:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(found), signal.SIGKILL)
    return True


def descendants(pid: int) -> list[int]:
    """Return the processes below a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


async def client(
    base: str,
    tokens: list[str],
    number: int,
    stop: asyncio.Event,
    answered: dict[str, int],
    refused: dict[str, int],
    seed: int,
) -> None:
    """Submit again and again; a request that got no answer is repeated with its key until it has one."""
    chance = random.Random(seed)
    connection = Connection(base, tokens[0])
    count = 0
    while not stop.is_set():
        key = f"crash-{number}-{count}"
        connection.token = tokens[(number + count * CLIENTS) % len(tokens)]
        devices = [{0: REAL, EACH // 2: LENT}.get(count % EACH, FAST)]
        body = {"leaderboard": "double", "devices": devices, "code": CODE.format(number=key)}
        answered[key] = await ask(connection, key, body, refused)
        count += 1
        await asyncio.sleep(chance.uniform(0.0, 0.3))


async def ask(connection: Connection, key: str, body: object, refused: dict[str, int]) -> int:
    """Submit until it is accepted, and return the submission's number."""
    while True:
        try:
            status, found = await connection.request(
                "POST", "/api/v1/submissions", body, {"Idempotency-Key": key}
            )
        except ConnectionError:
            refused["no answer"] = refused.get("no answer", 0) + 1
            await asyncio.sleep(0.1)
            continue
        if status == 201:
            return int(found["id"])
        what = f"{status} {found['error']['code']}"
        refused[what] = refused.get(what, 0) + 1
        await asyncio.sleep(0.2)


async def drain(url: str, parts: dict[str, Part]) -> bool:
    """Wait until nothing waits or runs; return whether it came to that."""
    deadline = time.monotonic() + LONGEST_WAIT_S
    with Database.open(url) as db:
        while time.monotonic() < deadline:
            for part in parts.values():
                part.look()
            with db.read() as session:
                left = session.scalar(text("SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')"))
            if left == 0:
                return True
            await asyncio.sleep(0.5)
    return False


def count(db: Database, answered: dict[str, int]) -> dict[str, Any]:
    """Compare what was answered with what is stored."""
    with db.read() as session:
        rows = session.execute(text("SELECT id, idempotency_key FROM submissions")).all()
        runs = dict(
            session.execute(
                text(
                    "SELECT j.submission_id, count(r.id) FROM jobs j LEFT JOIN runs r "
                    "ON r.job_id = j.id AND r.counted GROUP BY j.submission_id, j.id"
                )
            ).all()
        )
        states = dict(session.execute(text("SELECT state, count(*) FROM jobs GROUP BY state")).all())
        verdicts = dict(
            session.execute(text("SELECT verdict, count(*) FROM runs WHERE counted GROUP BY verdict")).all()
        )
        attempts, lost = session.execute(text("SELECT max(attempt), sum(lost) FROM jobs")).one()
        again = session.scalar(text("SELECT count(*) FROM jobs WHERE attempt - first_attempt > lost"))
        wrong = session.scalar(text(WRONG_BESTS))
    stored = {key: number for number, key in rows}
    return {
        "stored": len(rows),
        "lost": sum(stored.get(key) != number for key, number in answered.items()),
        "doubled": len(rows) - len(stored) + sum(found > 1 for found in runs.values()),
        "unjudged": sum(found == 0 for found in runs.values()),
        "unanswered_but_stored": len(stored.keys() - answered.keys()),
        "wrong_bests": wrong,
        "job_states": states,
        "verdicts": verdicts,
        "not_accepted": sum(found for verdict, found in verdicts.items() if verdict != "accepted"),
        "halted": states.get("halted", 0),
        "most_attempts": attempts,
        "lost_attempts": lost,
        "tried_again": again,
    }


# Times on processors do not rank: the first of equals is the earliest.
WRONG_BESTS = """
SELECT count(*) FROM (
  SELECT s.leaderboard_id, j.device, s.user_id, min(s.id) AS first
  FROM runs r JOIN jobs j ON j.id = r.job_id JOIN submissions s ON s.id = j.submission_id
  WHERE r.counted AND r.score_s IS NOT NULL GROUP BY s.leaderboard_id, j.device, s.user_id
) AS found LEFT JOIN bests b ON b.leaderboard_id = found.leaderboard_id AND b.device = found.device
  AND b.user_id = found.user_id WHERE b.submission_id IS NULL OR b.submission_id <> found.first
"""


def free_port() -> int:
    """Return a port that nobody uses now."""
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


if __name__ == "__main__":
    main()
