"""Usage: request_cost.py OUT.json [--base COMMIT] [--rounds 6] [--count 200] [--submissions 20000]

What requests cost the server in processor time (user and system), from the socket to the whole answer, on SQLite:
submissions of 8 kB, and the pages that people read most. Unlike a rate that says something on a machine that
has other work. With --base another commit's server is measured in turns with this one, round by round: what the
machine does meanwhile then concerns both. Each request is another user's, board's or submission's, as in
service_load.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fill_database import fill
from http_client import Connection
from results import ROOT, machine_facts, percentile, processor_s
from service_load import (
    Load,
    connections,
    list_path,
    make_tokens,
    page_path,
    standings_path,
    submit,
    wait_for_url,
)

from kernelcup.storage.engine.database import Database

SHARE = {
    "accept": 1.0,
    "overview": 0.2,
    "board": 0.2,
    "submission": 0.2,
    "queue": 0.2,
    "list": 0.1,
    "standings": 0.1,
}
"""Of --count: how many requests of a kind a round has."""
PAGES = ("overview", "board", "submission", "queue")
"""As service_load.page_path has them, in this order."""


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", help="a commit to compare with")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--count", type=int, default=200, help="submissions in a round")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--submissions", type=int, default=20_000)
    parser.add_argument("--kinds", default=",".join(SHARE))
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernelcup-cost-")))
        sources = {"this": ROOT / "src"}
        if given.base:
            sources["base"] = source_of(given.base, folder)
        tokens = make_database(folder / "first.db", given.submissions)
        servers = {
            name: stack.enter_context(serving(name, source, folder)) for name, source in sources.items()
        }
        load_before = os.getloadavg()[0]
        found = measure(servers, tokens, given)
    result: dict[str, Any] = {"processor_ms": found, "base": given.base, "rounds": given.rounds}
    result |= {"count": given.count, "submissions": given.submissions, "connections": given.connections}
    result |= {"load_average": [round(load_before, 1), round(os.getloadavg()[0], 1)]} | machine_facts()
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def source_of(commit: str, folder: Path) -> Path:
    """Return the source folder of another commit."""
    place = folder / "base"
    place.mkdir()
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=place, input=packed.stdout, check=True)
    return place / "src"


def make_database(file: Path, submissions: int) -> list[str]:
    """Fill a database, and return tokens of some of its users."""
    with Database.open(f"sqlite:///{file}") as db:
        fill(db, submissions=submissions, queued=submissions // 10)
        return make_tokens(db)


@contextmanager
def serving(name: str, source: Path, folder: Path) -> Iterator[tuple[int, str]]:
    """Serve a copy of the database with one process from a source folder; yield its id and address."""
    shutil.copy(folder / "first.db", folder / f"{name}.db")
    environ = {**os.environ, "PYTHONPATH": str(source), "KERNELCUP_HOME": str(folder / f"home-{name}")}
    environ["KERNELCUP_DATABASE"] = f"sqlite:///{folder / name}.db"
    command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", "0", "--processes", "1"]
    with (folder / f"{name}.log").open("wb") as log:
        server = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log)
        try:
            yield server.pid, wait_for_url(server)
        finally:
            server.terminate()
            server.wait()


def measure(
    servers: dict[str, tuple[int, str]], tokens: list[str], given: argparse.Namespace
) -> dict[str, Any]:
    """Return for each server and kind the figures of a request."""
    kinds = given.kinds.split(",")
    costs: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in kinds} for name in servers}
    for number in range(given.rounds + 1):
        for name, (pid, base) in sorted(servers.items(), reverse=bool(number % 2)):
            for kind in kinds:
                count = max(1, int(given.count * SHARE[kind]))
                cost = asyncio.run(
                    round_cost(pid, Load(base, tokens), kind, count, number, given.connections)
                )
                if number:  # the first one warms up
                    costs[name][kind].append(cost)
    return {name: {kind: figures(each) for kind, each in found.items()} for name, found in costs.items()}


async def round_cost(pid: int, load: Load, kind: str, count: int, number: int, width: int) -> float:
    """Return the processor time of a request, in ms, over some requests."""
    pool = connections(load.base, load.tokens[0], width)
    first = number * count
    before = processor_s(pid)
    await asyncio.gather(*(request(load, pool, kind, first + each) for each in range(count)))
    cost = (processor_s(pid) - before) / count * 1000
    if load.errors:
        raise RuntimeError(f"{kind}: {load.errors}")
    while not pool.empty():
        pool.get_nowait().close()
    return cost


async def request(load: Load, pool: asyncio.Queue[Connection], kind: str, number: int) -> None:
    """Send one request of a kind."""
    due = time.perf_counter()
    if kind == "accept":
        await submit(load, pool, due, number)
    elif kind in PAGES:
        path = page_path(4 * number + PAGES.index(kind))
        await load.call(kind, pool, due, "GET", path, token="")
    else:
        path = standings_path(number) if kind == "standings" else list_path(number)
        await load.call(kind, pool, due, "GET", path)


def figures(values: list[float]) -> dict[str, float]:
    """Return the median of the rounds, the smallest and the largest."""
    return {
        "median": round(percentile(values, 50), 2),
        "least": round(min(values), 2),
        "most": round(max(values), 2),
    }


if __name__ == "__main__":
    main()
