"""Usage: service_full_disk.py

A service whose SQLite file lies on a disk that runs full: refusals have to be clear, what was accepted
has to stay, and the service has to go on by itself once there is room again. Needs root, to mount a
small disk of memory. Prints one JSON object; exit code 1 where something is not so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from http_client import Connection
from service_crash import CODE, free_port, prepare

from kernelcup.storage.engine.database import Database

DISK_MB = 12


def main() -> None:
    """Fill the disk, look, make room, look again."""
    if os.geteuid() != 0:
        print("this needs root, to mount a disk")
        sys.exit(2)
    with (
        tempfile.TemporaryDirectory(prefix="kernelcup-disk-") as folder,
        small_disk(Path(folder) / "disk") as disk,
    ):
        url = f"sqlite:///{disk / 'kernelcup.db'}"
        with Database.open(url) as db:
            (token, *_) = prepare(db)
        filler = disk / "filler"
        result = run(url, token, filler, Path(folder))
    print(json.dumps(result, indent=1))
    sys.exit(0 if result["fine"] else 1)


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Mount a small disk of memory."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def run(url: str, token: str, filler: Path, folder: Path) -> dict[str, Any]:
    """Submit before, while and after the disk is full."""
    port = free_port()
    environ = {**os.environ, "KERNELCUP_DATABASE": url, "KERNELCUP_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", str(port)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, env=environ, stdout=log, stderr=log) as server,
    ):
        try:
            client = Connection(f"http://127.0.0.1:{port}", token)
            before = asyncio.run(submit_many(client, "before", 5))
            fill_up(filler)
            full = asyncio.run(submit_many(client, "full", 40))
            filler.unlink()
            after = asyncio.run(submit_many(client, "after", 5))
        finally:
            server.terminate()
    accepted = [number for status, number in [*before, *full, *after] if status == 201]
    with Database.open(url) as db, db.read() as session:
        stored = set(session.scalars(text("SELECT id FROM submissions")))
    refusals = sorted({f"{status} {what}" for status, what in full if status != 201})
    fine = (
        all(status == 201 for status, _ in [*before, *after])
        and refusals == ["503 storage_unavailable"]
        and set(accepted) == stored
    )
    return {"refusals": refusals, "accepted": len(accepted), "stored": len(stored), "fine": fine}


def fill_up(filler: Path) -> None:
    """Write until there is no room."""
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


async def submit_many(client: Connection, kind: str, count: int) -> list[tuple[int, Any]]:
    """Submit one after the other, over a connection of its own."""
    found = [await submit(client, kind, number) for number in range(count)]
    client.close()
    return found


async def submit(client: Connection, kind: str, number: int) -> tuple[int, Any]:
    """Submit once; return the status, and the submission or the error's code."""
    code = CODE.format(number=f"{kind} {number} " + "x" * 20_000)
    body = {"leaderboard": "double", "devices": ["fast"], "code": code}
    for _ in range(50):
        try:
            status, found = await client.request("POST", "/api/v1/submissions", body)
            return status, found["id"] if status == 201 else found["error"]["code"]
        except ConnectionError:
            await asyncio.sleep(0.2)  # it has not started yet
    raise RuntimeError("no answer")


if __name__ == "__main__":
    main()
