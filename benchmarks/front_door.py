"""Usage: front_door.py [CROWD ...] [--checkouts FOLDER ...] [--seconds 20] [--submissions 20000]

What visitors wait while others are at the door without an account: 1 to 100 addresses that read ordinary pages one
after the other, and seven attackers on two addresses. Each crowd meets a server of its own with the usual limits, of
each checkout in turns. Three visitors, one after the other and each time on a new connection: one whose address has
read pages for some seconds before the crowd came, one from an address that never read, and a health check. `refused`
counts answers that were not 200, and no answer in 10 s; `log_bytes` is what the server wrote into its log; `load` is
that of the machine when the crowd came. SQLite. Prints its figures beside the stored ones, and writes
benchmarks/results/front-door.json.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import httpx
from fill_database import fill
from results import ROOT, machine_facts, percentile, publish
from service_load import page_path, wait_for_url

from kernelcup.engine.database import Database

BOARD = "board-3"
PAGE = f"/b/{BOARD}"
KNOWN = "127.0.9.1"
LARGE = "/static/any/swagger/swagger-ui-bundle.js"
PATIENCE_S = 10.0
SETTLE_S = 3.0
REST_S = 5.0

Attack = Callable[[str, int, str], Coroutine[Any, Any, None]]
"""One client that attacks until it is cancelled, of a host and a port, from an address."""


async def opened(host: str, port: int, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from an address, with a small buffer, so that an unread answer stays at the server."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    sock.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(sock, (host, port))
    return await asyncio.open_connection(sock=sock, limit=4096)


def get(path: str, more: bytes = b"\r\n") -> bytes:
    """Return a request."""
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n".encode() + more


async def endless_head(host: str, port: int, address: str) -> None:
    """Send one header without an end."""
    _, writer = await opened(host, port, address)
    writer.write(get("/", b"X: "))
    while True:
        writer.write(b"a" * 65536)
        await writer.drain()


async def many_headers(host: str, port: int, address: str) -> None:
    """Send 20,000 headers, again and again."""
    reader, writer = await opened(host, port, address)
    head = get("/livez", b"".join(b"X-%d: y\r\n" % number for number in range(20_000)) + b"\r\n")
    while True:
        writer.write(head)
        await writer.drain()
        if not await reader.read(4096):
            return


async def dripping_body(host: str, port: int, address: str) -> None:
    """Send a body byte by byte."""
    _, writer = await opened(host, port, address)
    form = b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    writer.write(b"POST /api/v1/auth/device HTTP/1.1\r\nHost: x\r\n" + form)
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.5)


async def unread_answer(host: str, port: int, address: str) -> None:
    """Ask for a large file four times and read nothing."""
    reader, writer = await opened(host, port, address)
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(get(LARGE) * 4)
    await asyncio.sleep(3600)


async def reads(host: str, port: int, address: str) -> None:
    """Read ordinary pages, one after the other."""
    reader, writer = await opened(host, port, address)
    for number in count(int(address.rpartition(".")[2])):
        writer.write(get(page_path(number)))
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        if b" 503 " in head or b" 429 " in head:
            await asyncio.sleep(0.1)


async def checks(host: str, port: int, address: str) -> None:
    """Ask for the health check again and again."""
    reader, writer = await opened(host, port, address)
    while True:
        writer.write(get("/livez"))
        await reader.readuntil(b"ok")


async def reopened_head(host: str, port: int, address: str) -> None:
    """Begin a head, and let it lie as long as it is let."""
    reader, writer = await opened(host, port, address)
    writer.write(get("/", b"X: "))
    await reader.read()
    writer.close()
    await asyncio.sleep(REST_S)


async def streams(host: str, port: int, address: str) -> None:
    """Open a stream, and hang up soon."""
    reader, writer = await opened(host, port, address)
    writer.write(get(f"{PAGE}/live?device=H100&since=none"))
    await reader.read(200)
    await asyncio.sleep(1)
    writer.transport.abort()


CROWDS: dict[str, tuple[Attack, int, int]] = {
    "1 address": (reads, 1, 1),
    "3 addresses": (reads, 3, 3),
    "30 addresses": (reads, 30, 30),
    "100 addresses": (reads, 100, 100),
    "endless head": (endless_head, 4, 2),
    "20,000 headers": (many_headers, 4, 2),
    "dripping body": (dripping_body, 600, 2),
    "unread answer": (unread_answer, 1500, 2),
    "looping reads": (reads, 120, 1),
    "looping checks": (checks, 240, 2),
    "reopened head": (reopened_head, 2300, 2),
    "streams": (streams, 120, 2),
}
"""Each with its number of clients, and of addresses."""


def crowd(name: str, base: str) -> None:
    """Be there until this process is ended; a client whose connection ends begins another."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    client, number, addresses = CROWDS[name]
    place = urlsplit(base)

    async def forever(address: str) -> None:
        while True:
            try:
                await client(str(place.hostname), place.port or 80, address)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.02)

    async def all_of_them() -> None:
        await asyncio.gather(*(forever(f"127.0.0.{2 + each % addresses}") for each in range(number)))

    asyncio.run(all_of_them())


def visit(url: str, address: str) -> tuple[float, bool]:
    """Return what one answer took in milliseconds, and whether it was refused."""
    transport = httpx.HTTPTransport(local_address=address, verify=False)
    with httpx.Client(transport=transport, timeout=PATIENCE_S, trust_env=False) as client:
        begun = time.perf_counter()
        try:
            is_refused = client.get(url).status_code != 200
        except httpx.TransportError:
            is_refused = True
        return (time.perf_counter() - begun) * 1000, is_refused


def visits(base: str, seconds: float) -> dict[str, dict[str, float]]:
    """Read as the three visitors do."""
    taken: dict[str, list[tuple[float, bool]]] = {"read before": [], "new": [], "/livez": []}
    end = time.perf_counter() + seconds
    for number in count():
        if time.perf_counter() > end:
            break
        taken["read before"].append(visit(base + PAGE, KNOWN))
        taken["new"].append(visit(base + PAGE, f"127.0.{10 + number // 250}.{number % 250 + 1}"))
        taken["/livez"].append(visit(base + "/livez", KNOWN))
        time.sleep(0.05)
    return {
        visitor: {
            "reads": len(answers),
            "refused": sum(is_refused for _, is_refused in answers),
            "p50_ms": round(percentile([ms for ms, _ in answers], 50), 1),
            "p95_ms": round(percentile([ms for ms, _ in answers], 95), 1),
        }
        for visitor, answers in taken.items()
    }


def measured(name: str, url: str, folder: Path, seconds: float, tree: Path) -> dict[str, Any]:
    """Serve a database by the code of a checkout, let the crowd in, and return what visitors waited."""
    environ = {
        **os.environ,
        "PYTHONPATH": f"{tree}/src:{tree}/packages",
        "KERNELCUP_DATABASE": url,
        "KERNELCUP_HOME": str(folder / "home"),
    }
    command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", "0"]
    log = folder / "server.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=tree, env=environ, stdout=subprocess.PIPE, stderr=errors) as server,
    ):
        others = multiprocessing.get_context("spawn").Process(
            target=crowd, args=(name, base := wait_for_url(server))
        )
        try:
            for number in range(4):
                httpx.get(base + page_path(number), timeout=60)
            end = time.perf_counter() + SETTLE_S
            while time.perf_counter() < end:
                visit(base + PAGE, KNOWN)
            load = round(os.getloadavg()[0], 1)
            if name in CROWDS:
                others.start()
                time.sleep(SETTLE_S)
            result = visits(base, seconds)
        finally:
            if others.pid is not None:
                others.kill()
                others.join()
            server.terminate()
    return {**result, "log_bytes": log.stat().st_size, "load": load}


def main() -> None:
    """Measure, print, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("crowds", nargs="*", metavar="CROWD", help=", ".join(CROWDS))
    parser.add_argument("--checkouts", nargs="+", type=Path, default=[ROOT])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--submissions", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{name}/load.db"
        with Database.open(url) as db:
            fill(db, submissions=given.submissions, queued=given.submissions // 10)
        found = {
            each: {
                machine_facts(tree)["commit"]: measured(each, url, Path(name), given.seconds, tree.resolve())
                for tree in given.checkouts
            }
            for each in given.crowds or ("none", *CROWDS)
        }
    publish("front-door.json", {**machine_facts(), "seconds": given.seconds, "under": found})


if __name__ == "__main__":
    main()
