"""Usage: front_door.py [ATTACKER ...] [--seconds 10] [--submissions 20000]

What other people wait while a service is attacked without an account, from 127.0.0.2 and 127.0.0.3: a leaderboard's
page and the health check, read from 127.0.0.9, without an attacker and under each of seven, one after the other, each
against a server of its own with its usual limits. `refused` counts answers that were not 200, and no answer in 10 s;
`log_bytes` is what the server wrote into its log meanwhile. SQLite. Prints its figures beside the stored ones, and
writes benchmarks/results/front-door.json.
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
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import httpx
from fill_database import fill
from results import machine_facts, percentile, publish
from service_load import wait_for_url

from kernelcup.engine.database import Database

ADDRESSES = ("127.0.0.2", "127.0.0.3")
BOARD = "board-3"
PAGE = f"/b/{BOARD}"
PATHS = (PAGE, "/livez")
LARGE = "/static/any/swagger/swagger-ui-bundle.js"
PATIENCE_S = 10.0
SETTLE_S = 2.0
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


async def looping_reads(host: str, port: int, address: str) -> None:
    """Read a page again and again."""
    reader, writer = await opened(host, port, address)
    while True:
        writer.write(get(PAGE))
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        if b" 503 " in head or b" 429 " in head:
            await asyncio.sleep(0.1)


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


ATTACKERS: dict[str, tuple[Attack, int]] = {
    "endless head": (endless_head, 4),
    "20,000 headers": (many_headers, 4),
    "dripping body": (dripping_body, 600),
    "unread answer": (unread_answer, 1500),
    "looping reads": (looping_reads, 120),
    "reopened head": (reopened_head, 2300),
    "streams": (streams, 120),
}
"""Each with its number of clients, half of them from each address; who loops on reads has one."""


def attack(name: str, base: str) -> None:
    """Attack until this process is ended; a client whose connection ends begins another."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    client, number = ATTACKERS[name]
    place = urlsplit(base)
    addresses = ADDRESSES[:1] if client is looping_reads else ADDRESSES

    async def forever(address: str) -> None:
        while True:
            try:
                await client(str(place.hostname), place.port or 80, address)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.02)

    async def crowd() -> None:
        await asyncio.gather(*(forever(addresses[each % len(addresses)]) for each in range(number)))

    asyncio.run(crowd())


def read(base: str, seconds: float) -> dict[str, Any]:
    """Read as other people do, each time on a new connection."""
    taken: dict[str, list[float]] = {path: [] for path in PATHS}
    refused = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for path, values in taken.items():
            transport = httpx.HTTPTransport(local_address="127.0.0.9")
            begun = time.perf_counter()
            try:
                with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
                    refused += client.get(base + path).status_code != 200
            except httpx.TransportError:
                refused += 1
            values.append((time.perf_counter() - begun) * 1000)
        time.sleep(0.05)
    latencies = {
        f"{path}_ms": {"p95": round(percentile(values, 95), 1), "max": round(max(values), 1)}
        for path, values in taken.items()
    }
    return {"reads": sum(map(len, taken.values())), "refused": refused, **latencies}


def measured(name: str, url: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Serve a database, attack it, and return what others waited."""
    environ = {**os.environ, "KERNELCUP_DATABASE": url, "KERNELCUP_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", "0"]
    log = folder / "server.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors) as server,
    ):
        attacker = multiprocessing.get_context("spawn").Process(
            target=attack, args=(name, base := wait_for_url(server))
        )
        try:
            httpx.get(base + PAGE, timeout=60)
            if name in ATTACKERS:
                attacker.start()
                time.sleep(SETTLE_S)
            result = read(base, seconds)
        finally:
            if attacker.pid is not None:
                attacker.kill()
                attacker.join()
            server.terminate()
    return result | {"log_bytes": log.stat().st_size}


def main() -> None:
    """Measure, print, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("attackers", nargs="*", metavar="ATTACKER", help=", ".join(ATTACKERS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--submissions", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{name}/load.db"
        with Database.open(url) as db:
            fill(db, submissions=given.submissions, queued=given.submissions // 10)
        found = {
            each: measured(each, url, Path(name), given.seconds)
            for each in given.attackers or ("no attacker", *ATTACKERS)
        }
    publish("front-door.json", {**machine_facts(), "seconds": given.seconds, "under": found})


if __name__ == "__main__":
    main()
