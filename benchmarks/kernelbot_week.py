"""Usage: scripts/with-postgres .venv/bin/python benchmarks/kernelbot_week.py [--submissions 300]

A week side by side in minutes: submissions are made up in KernelBot's tables, a real server judges them on the emulated
device, and `kernelcup kernelbot follow` is killed twice with -9 on the way. Then `compare` writes its page and table.
After that a switch with `import` into an empty database, submissions here, the way back with `back`, and a second
switch. Prints counts and seconds; ends with 1 if a submission is missing, doubled or unjudged, or a place differs.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kernelbot"))

from old_database import TASK
from results import machine_facts, publish
from side_by_side import ADA, BOB, running_kernelbot, submit
from sqlalchemy import Connection, text

KERNELCUP = (sys.executable, "-m", "kernelcup")
RIGHT = (
    b"#!POPCORN leaderboard double\n#!POPCORN gpu H100\ndef custom_kernel(data):\n    return data * 2  # %d\n"
)
WRONG = b"def custom_kernel(data):\n    return data * 3  # %d\n"
KILLS, MINE = 2, 6
BEGAN = time.monotonic()
TASK_YML = """\
lang: py
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
tests: [{size: 16, seed: 1}]
benchmarks: [{size: 1024, seed: 2}]
ranking_by: geom
"""
PATIENCE_S = 1_800.0


class Here:
    """A server with a database of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.environ = {
            **os.environ,
            "KERNELCUP_HOME": str(folder),
            "KERNELCUP_PORT": str(port),
            "HOME": str(folder),
        }
        self.folder = folder
        slots = f"slots = {os.cpu_count() or 1}"
        (folder / "kernelcup.toml").write_text(f'[[devices]]\nname = "H100"\nbackend = "emulated"\n{slots}\n')

    def run(self, *words: str, check: bool = True) -> str:
        """Run a command on this machine, and return what it prints."""
        done = subprocess.run(
            [*KERNELCUP, *words], env=self.environ, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise SystemExit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        log = (self.folder / f"{words[0]}.log").open("a")
        return subprocess.Popen([*KERNELCUP, *words], env=self.environ, stdout=log, stderr=log, text=True)

    def serve(self) -> subprocess.Popen[str]:
        """Start the server, and wait until it answers."""
        server = self.start("serve")
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if not subprocess.run(
                ["curl", "-sf", f"{self.url}/livez"], capture_output=True, check=False
            ).returncode:
                return server
            time.sleep(0.5)
        raise SystemExit((self.folder / "serve.log").read_text()[-3000:])

    def rows(self, query: str) -> list[Any]:
        """Return what its database answers."""
        with closing(sqlite3.connect(self.folder / "kernelcup.db", timeout=30)) as db:
            return db.execute(query).fetchall()

    def wait(self) -> None:
        """Wait until all jobs have ended, as long as one after the other does."""
        until, before = time.monotonic() + PATIENCE_S, -1
        while time.monotonic() < until:
            waiting = self.rows("SELECT count(*) FROM jobs WHERE state IN ('queued', 'claimed', 'running')")[
                0
            ][0]
            if not waiting:
                return
            if waiting != before:
                until, before = time.monotonic() + PATIENCE_S, waiting
            time.sleep(1)
        raise SystemExit("not all jobs ended")

    def sign_in(self, name: str, *scopes: str) -> None:
        """Use the server as this user from now on."""
        wanted = [word for scope in scopes for word in ("--scope", scope)]
        token = self.run("admin", "token", "create", name, "--name", "week", *wanted).split()[-1]
        self.environ |= {"KERNELCUP_TOKEN": token, "KERNELCUP_SERVER": self.url}

    def sign_out(self) -> None:
        """Use this machine's database from now on."""
        self.environ = {
            k: v for k, v in self.environ.items() if k not in ("KERNELCUP_TOKEN", "KERNELCUP_SERVER")
        }


def made_up(kernelbot: Connection, count: int) -> None:
    """Make up submissions: every fifth is wrong, of two people."""
    for number in range(count):
        wrong = number % 5 == 4
        code = (WRONG if wrong else RIGHT) % number
        who = BOB if number % 3 else ADA
        submit(
            kernelbot,
            code,
            user=who,
            runner="H100",
            failed="wrong" if wrong else None,
            score=None if wrong else 2e-6,
        )


def follow(here: Here, url: str, journal: Path, count: int) -> dict[str, Any]:
    """Follow until everything was sent; kill the follower twice."""
    words = (
        "kernelbot",
        "follow",
        url,
        "--boards",
        "double=double-shadow",
        "--journal",
        str(journal),
        "--every",
        "1",
    )
    kills, began = [count * (each + 1) // (KILLS + 1) for each in range(KILLS)], time.monotonic()
    follower = here.start(*words)
    while (sent := lines(journal)) < count:
        if follower.poll() is not None or time.monotonic() - began > PATIENCE_S:
            raise SystemExit((here.folder / "kernelbot.log").read_text()[-2000:])
        if kills and sent >= kills[0]:
            kills.pop(0)
            follower.send_signal(signal.SIGKILL)
            follower.wait()
            follower = here.start(*words)
        time.sleep(0.2)
    follower.terminate()
    follower.wait()
    return {"sent": count, "kills": KILLS, "seconds": round(time.monotonic() - began, 1)}


def lines(journal: Path) -> int:
    """Return how many submissions a journal has."""
    return max(0, len(list(csv.reader(journal.open()))) - 2) if journal.exists() else 0


def week(here: Here, url: str, kernelbot: Connection, root: Path, count: int) -> dict[str, Any]:
    """Follow, judge and compare."""
    here.run(
        "board",
        "create",
        str(root / "task"),
        "--name",
        "double-shadow",
        "-d",
        "H100",
        "--members-only",
        "--no-run",
    )
    here.run("admin", "user", "add", "mover", "--role", "admin")
    here.sign_in("mover", "read", "submit", "act", "admin")
    server, journal = here.serve(), root / "journal.csv"
    try:
        here.run(
            "kernelbot",
            "follow",
            url,
            "--boards",
            "double=double-shadow",
            "--journal",
            str(journal),
            "--once",
        )
        made_up(kernelbot, count)
        found = follow(here, url, journal, count)
        here.wait()
    finally:
        server.terminate()
        server.wait()
    here.sign_out()
    stored = here.rows("SELECT count(*), count(DISTINCT idempotency_key) FROM submissions")[0]
    page, table = root / "compare.html", root / "compare.csv"
    found["seconds until all were judged and compared"] = round(time.monotonic() - BEGAN, 1)
    here.run("kernelbot", "compare", url, "--page", str(page), "--csv", str(table))
    rows = list(csv.DictReader(table.open()))
    same = sum((row["there_verdict"] == "passed") == (row["here_verdict"] == "accepted") for row in rows)
    if stored != (count, count) or len(rows) != count:
        raise SystemExit(f"stored {stored}, compared {len(rows)} of {count}")
    (Path(tempfile.gettempdir()) / "kernelbot-compare.html").write_bytes(page.read_bytes())
    return {
        **found,
        "stored": stored[0],
        "compared": len(rows),
        "verdicts agree": same,
        "page bytes": page.stat().st_size,
    }


def switch(root: Path, url: str, kernelbot: Connection) -> dict[str, Any]:
    """Switch, submit here, go back, and switch again."""
    first, second = Here(root / "first"), Here(root / "second")
    began = time.monotonic()
    first.run("kernelbot", "import", url)
    since, took_s = datetime.now(UTC), time.monotonic() - began
    first.sign_in("Ada", "read", "submit")
    server = first.serve()
    try:
        for number in range(MINE):
            file = root / f"mine_{number}.py"
            file.write_bytes(RIGHT % (10_000 + number))
            first.run("submit", str(file), "--board", "double", "--device", "H100", "--no-wait")
        first.wait()
    finally:
        server.terminate()
        server.wait()
    first.sign_out()
    before = kernelbot.scalar(text("SELECT count(*) FROM leaderboard.submission"))
    words = ("kernelbot", "back", url, "--since", f"{since:%Y-%m-%dT%H:%M:%SZ}")
    first.run(*words, "--dry-run")
    unchanged = kernelbot.scalar(text("SELECT count(*) FROM leaderboard.submission"))
    first.run(*words)
    first.run(*words)
    after = kernelbot.scalar(text("SELECT count(*) FROM leaderboard.submission"))
    if (before, after) != (unchanged, before + MINE):
        raise SystemExit(
            f"submissions at KernelBot: {before}, {unchanged} after the dry run, {after} at last"
        )
    second.run("kernelbot", "import", url)
    brought = second.rows("SELECT count(*) FROM submissions")[0][0]
    return {
        "first import s": round(took_s, 1),
        "written back": after - before,
        "brought by the second switch": brought,
    }


def main() -> int:
    """Run the week, print and store what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--submissions", type=int, default=300)
    count = parser.parse_args().submissions
    found: dict[str, Any] = {**machine_facts(), "submissions": count}
    with tempfile.TemporaryDirectory() as name, running_kernelbot() as (url, kernelbot):
        root = Path(name)
        (root / "task").mkdir()
        (root / "task/reference.py").write_text(TASK["files"]["reference.py"], encoding="utf-8")
        (root / "task/task.yml").write_text(TASK_YML, encoding="utf-8")
        kernelbot.execute(
            text("UPDATE leaderboard.leaderboard SET task = :task, deadline = now() + interval '9 days'"),
            {"task": json.dumps(TASK)},
        )
        here = Here(root / "shadow")
        found["week"] = week(here, url, kernelbot, root, count)
        found["switch"] = switch(root, url, kernelbot)
    publish("kernelbot-week.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
