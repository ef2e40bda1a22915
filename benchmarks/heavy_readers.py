"""Usage: heavy_readers.py sqlite|postgresql [--heavy 60] [--seconds 20] [--submissions 300000]

What other people's reads wait while anonymous clients, each with an address of its own, download the standings of
a large leaderboard one after the other: latencies of a board's page, its first standings and the health check, before
and meanwhile, and what the downloads were answered. The server has its usual limits. PostgreSQL runs by
scripts/with-postgres. Prints its figures beside the stored ones, and writes
benchmarks/results/heavy-readers-DATABASE.json.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import httpx
from databases import database_url
from fill_database import fill
from results import machine_facts, percentile, publish
from service_load import wait_for_url

from kernelcup.engine.database import Database

BOARD = "board-3"
LIGHT = (f"/b/{BOARD}", f"/api/v1/leaderboards/{BOARD}/standings/H100", "/livez")


def main() -> None:
    """Measure, print, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("database", choices=["sqlite", "postgresql"])
    parser.add_argument("--heavy", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--submissions", type=int, default=300_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        url = database_url(given.database, Path(name))
        with Database.open(url) as db:
            fill(db, submissions=given.submissions, queued=given.submissions // 10)
        with served(url, Path(name)) as base:
            before = light_reads(base, given.seconds / 4)
            with heavy_reads(base, given.heavy) as answers:
                meanwhile = light_reads(base, given.seconds)
    result = {
        "heavy": given.heavy,
        "submissions": given.submissions,
        "before": before,
        "meanwhile": meanwhile,
    }
    publish(f"heavy-readers-{given.database}.json", {**machine_facts(), **result, "answers": dict(answers)})


@contextmanager
def served(url: str, folder: Path) -> Iterator[str]:
    """Serve a database; yield the address."""
    environ = {**os.environ, "KERNELCUP_DATABASE": url, "KERNELCUP_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", "0"]
    with (
        (folder / "server.log").open("wb") as log,
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log) as server,
    ):
        try:
            yield wait_for_url(server)
        finally:
            server.terminate()


@contextmanager
def heavy_reads(base: str, clients: int) -> Iterator[Counter[str]]:
    """Download without a pause from so many addresses; the answers are counted by their status."""
    stop, answers, lock = threading.Event(), Counter[str](), threading.Lock()

    def download(number: int) -> None:
        transport = httpx.HTTPTransport(local_address=f"127.0.1.{number + 1}")
        with httpx.Client(transport=transport, timeout=120) as client:
            while not stop.is_set():
                status = client.get(f"{base}/b/{BOARD}/standings.csv").status_code
                with lock:
                    answers[str(status)] += 1

    threads = [threading.Thread(target=download, args=(number,)) for number in range(clients)]
    for each in threads:
        each.start()
    try:
        yield answers
    finally:
        stop.set()
        for each in threads:
            each.join()


def light_reads(base: str, seconds: float) -> dict[str, Any]:
    """Read what most visitors read, one after the other; return latencies in milliseconds."""
    taken: dict[str, list[float]] = {path: [] for path in LIGHT}
    refused = 0
    with httpx.Client(timeout=120) as client:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for path, values in taken.items():
                begun = time.perf_counter()
                refused += client.get(base + path).status_code != 200
                values.append((time.perf_counter() - begun) * 1000)
    every = [each for values in taken.values() for each in values]
    found = {f"{path} p95_ms": round(percentile(values, 95), 1) for path, values in taken.items()}
    return {"reads": len(every), "refused": refused, "p50_ms": round(percentile(every, 50), 1), **found}


if __name__ == "__main__":
    main()
