"""Usage: servers_in_turns.py CHECKOUT CHECKOUT [--kind submit|page] [--clients 64] [--requests 150] [--rounds 16]

Two or more servers of different checkouts at once, asked in turns on a machine that others use as well: requests a
second, the processor time of a request, and what its client waits. Each serves an SQLite database of its own with
5,000 submissions, in one process; load that comes and goes meets all of them. Prints a line for each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fill_database import BOARDS, DEVICES
from http_client import Connection
from results import percentile, processor_s
from service_load import CODE, page_path, wait_for_url

FILL = """
import json, sys
sys.path[:0] = ["tests", "benchmarks"]
from fill_database import fill
from kernelcup.app.access import HERE
from kernelcup.app.people.tokens import create_token
from kernelcup.app.queue.dispatcher import utc_now
from kernelcup.domain import OPERATOR, Scope
from kernelcup.engine.database import Database
with Database.open(sys.argv[1]) as db:
    fill(db, submissions=5000, queued=500)
    settings = {"name": "load", "scopes": frozenset({Scope.READ, Scope.SUBMIT}), "entry": HERE, "now": utc_now()}
    users = (f"user-{number}" for number in range(10, 210))
    print(json.dumps([create_token(db, OPERATOR, for_user=user, **settings).secret for user in users]))
"""


@dataclass
class Server:
    """One of the servers, and what was measured."""

    name: str
    process: subprocess.Popen[bytes]
    tokens: list[str]
    clients: list[Connection]
    cpu_ms: list[float] = field(default_factory=list)
    a_second: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)

    async def ask(self, client: Connection, number: int, kind: str) -> None:
        """Send one request."""
        begun = time.perf_counter()
        if kind == "page":
            client.token = ""
            status, answer = await client.request("GET", page_path(number))
        else:
            client.token = self.tokens[number % len(self.tokens)]
            body = {
                "leaderboard": f"board-{number % BOARDS}",
                "devices": [DEVICES[0]],
                "mode": "test" if number % 2 else "leaderboard",
                "code": f"# {number}\n{CODE}",
            }
            status, answer = await client.request("POST", "/api/v1/submissions", body=body)
        if status not in (200, 201):
            raise RuntimeError(f"{self.name}: {status} {answer}")
        self.latencies_ms.append((time.perf_counter() - begun) * 1000)

    async def turn(self, numbers: range, kind: str) -> None:
        """Have all clients ask."""
        queue = iter(numbers)

        async def work(client: Connection) -> None:
            for number in queue:
                await self.ask(client, number, kind)

        used, begun = processor_s(self.process.pid), time.perf_counter()
        await asyncio.gather(*map(work, self.clients))
        self.a_second.append(len(numbers) / (time.perf_counter() - begun))
        self.cpu_ms.append((processor_s(self.process.pid) - used) / len(numbers) * 1000)

    def __str__(self) -> str:
        p50, p95 = (percentile(self.latencies_ms, percent) for percent in (50, 95))
        cpu, rate = statistics.median(self.cpu_ms), statistics.median(self.a_second)
        return (
            f"{self.name}: {rate:.1f} a second (median of turns), "
            f"{cpu:.2f} ms of processor each, p50 {p50:.0f} ms, p95 {p95:.0f} ms"
        )


def started(tree: Path, folder: Path, clients: int, running: ExitStack) -> Server:
    """Fill a database and serve it, both by the code of a checkout."""
    folder.mkdir()
    url = f"sqlite:///{folder}/load.db"
    path = f"{tree}/src:{tree}/packages"
    environ = {
        **os.environ,
        "PYTHONPATH": path,
        "KERNELCUP_DATABASE": url,
        "KERNELCUP_HOME": str(folder / "home"),
    }
    settings = {"cwd": tree, "env": environ}
    tokens = subprocess.run([sys.executable, "-c", FILL, url], check=True, stdout=subprocess.PIPE, **settings)  # type: ignore[call-overload]
    with (folder / "server.log").open("wb") as log:
        command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, **settings)  # type: ignore[call-overload]
    running.callback(process.wait)
    running.callback(process.terminate)
    base = wait_for_url(process)
    secrets = json.loads(tokens.stdout.splitlines()[-1])
    return Server(str(tree), process, secrets, [Connection(base, "") for _ in range(clients)])


async def measure(servers: list[Server], given: argparse.Namespace) -> None:
    """Ask all servers, each time in the other order, after a turn that does not count."""
    for server in servers:
        await server.turn(range(given.requests), given.kind)
        server.cpu_ms, server.a_second, server.latencies_ms = [], [], []
    for number in range(given.rounds):
        first = (number + 1) * given.requests
        for server in servers if number % 2 else reversed(servers):
            await server.turn(range(first, first + given.requests), given.kind)


def main() -> None:
    """Measure, print a line for each server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--kind", choices=["submit", "page"], default="submit")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=16)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        servers = [
            started(tree.resolve(), Path(folder) / str(number), given.clients, running)
            for number, tree in enumerate(given.checkouts)
        ]
        asyncio.run(measure(servers, given))
        print(*servers, sep="\n")


if __name__ == "__main__":
    main()
