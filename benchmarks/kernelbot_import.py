"""Usage: scripts/with-postgres .venv/bin/python benchmarks/kernelbot_import.py [--submissions N] [--sqlite]

Makes up a KernelBot database (3,000 users, 20 leaderboards, 300,000 submissions, 990,000 runs), and imports it into
an empty database of PostgreSQL, or a SQLite file: seconds and peak memory of a dry run, the import and a second one,
each in a process of its own; places compared; then milliseconds of standings, history and pages at that size, and on
PostgreSQL of the old site's query over the views. Ends with 1 where a place differs.
Prints its figures beside the stored ones, and writes benchmarks/results/kernelbot-import.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, text
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kernelbot"))

from old_database import SCHEMA, TASK
from results import machine_facts, percentile, publish
from test_views import PLACES

from builders import make_device
from database_kinds import autocommitting, postgres_database
from kernelcup.config.settings import Config
from kernelcup.engine import migrate
from kernelcup.engine.database import Database
from kernelcup.http.app import create_app
from kernelcup.http.state import Platform
from kernelcup_kernelbot import views

USERS, BOARDS = 3_000, 20
DEVICES = ("H100", "B200")
REPEATS = 40
# 13 of 40 are ranked, with three public and three secret runs; the others have two runs.
FILL = """
INSERT INTO leaderboard.user_info (id, user_name, cli_id, cli_valid, cli_auth_provider, web_auth_id)
SELECT CASE i % 3 WHEN 0 THEN i::text ELSE (100000000000000000 + i)::text END,
       CASE i % 7 WHEN 0 THEN 'Name ' || i || ' 🚀' WHEN 1 THEN NULL ELSE 'user-' || i END,
       'cli-' || i, i % 2 = 0, CASE i % 5 WHEN 0 THEN 'github' END, 'web-' || i
FROM generate_series(1, :users) AS n(i);
INSERT INTO leaderboard.leaderboard (name, deadline, task, creator_id)
SELECT 'board-' || i, now() + (i - 3) * interval '10 days', CAST(:task AS jsonb), 3
FROM generate_series(1, :boards) AS n(i);
INSERT INTO leaderboard.gpu_type
SELECT i, d FROM generate_series(1, :boards) AS n(i), (VALUES ('H100'), ('B200')) AS g(d);
INSERT INTO leaderboard.code_files (code)
SELECT convert_to('# ' || i || E'\\n' || repeat(md5(i::text) || E'\\n', 60), 'UTF8')
FROM generate_series(1, :codes) AS n(i);
INSERT INTO leaderboard.code_files (code) VALUES ('\\xff00'::bytea);
INSERT INTO leaderboard.submission
    (leaderboard_id, user_id, code_id, file_name, submission_time, done, status, mode_category)
SELECT 1 + i % :boards, u.ids[1 + (i * 7919::bigint + i / 3000 * 37) % :users], 1 + i % :codes, 'submission.py',
       now() - (:submissions - i) * interval '1 minute' - interval '2 days', true, 'active',
       CASE WHEN i % 40 < 13 THEN 'leaderboard' ELSE 'test' END
FROM generate_series(1, :submissions) AS n(i),
     (SELECT array_agg(id ORDER BY id) AS ids FROM leaderboard.user_info) AS u;
INSERT INTO leaderboard.runs
    (submission_id, start_time, end_time, mode, secret, runner, score, passed, compilation, meta, result, system_info)
SELECT s.id, s.submission_time, s.submission_time + interval '20 seconds', m.mode, m.secret,
       CASE s.id / :boards % 2 WHEN 0 THEN 'H100' ELSE 'B200' END,
       CASE m.mode WHEN 'leaderboard' THEN 1e-6 * (1 + (s.id * 7919::bigint) % 100003) END, s.id % 11 <> 0, NULL,
       jsonb_build_object('stdout', repeat('line ', 40), 'stderr', '', 'exit_code', 0, 'success', true),
       jsonb_build_object('benchmark-count', '1', 'benchmark.0.spec', 'size: 1024; seed: 2', 'benchmark.0.runs', '100',
           'benchmark.0.mean', (1e3 * (1 + (s.id * 7919::bigint) % 100003))::text, 'benchmark.0.std', '12.5',
           'test-count', '1', 'test.0.spec', 'size: 16; seed: 1', 'test.0.status', 'pass', 'check', 'pass'),
       '{"gpu": "NVIDIA H100", "torch": "2.9", "platform": "Linux"}'
FROM leaderboard.submission s, (VALUES
    ('test', false), ('benchmark', false), ('leaderboard', false),
    ('test', true), ('benchmark', true), ('leaderboard', true)) AS m(mode, secret)
WHERE s.id % 40 < 13 OR (NOT m.secret AND m.mode <> 'leaderboard')
"""


def main() -> int:
    """Measure, print, write the result, and return 1 where a place differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--submissions", type=int, default=300_000)
    parser.add_argument("--sqlite", action="store_true")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        old = stack.enter_context(postgres_database())
        new = f"sqlite:///{folder / 'new.db'}" if given.sqlite else stack.enter_context(postgres_database())
        sizes = _fill(old, given.submissions)
        with Database.open(new) as db:
            migrate.upgrade(db)
        steps = {}
        for step, options in (("dry run", ["--dry-run"]), ("import", []), ("second import", [])):
            steps[step] = _imported(folder, old, new, options)
        with Database.open(new) as db:
            readers = _readers(db, new, folder, given.submissions)
            target = db.engine.dialect.name
    load = [round(each, 1) for each in os.getloadavg()]
    result = {**machine_facts(), "load_at_end": load, "target": target, "kernelbot": sizes}
    publish("kernelbot-import.json", result | {"steps": steps, "readers": readers})
    return int(any(step["differences"] for step in steps.values()))


def _fill(url: str, submissions: int) -> dict[str, int]:
    values = {"users": USERS, "boards": BOARDS, "submissions": submissions, "codes": max(submissions // 3, 1)}
    with autocommitting(url) as connection:
        connection.exec_driver_sql(SCHEMA)
        for statement in FILL.split(";\n"):
            wanted = {key: value for key, value in values.items() if f":{key}" in statement}
            wanted |= {"task": json.dumps(TASK)} if ":task" in statement else {}
            connection.execute(text(_casted(statement, wanted)), wanted)
        connection.exec_driver_sql("ANALYZE")
        names = ("user_info", "leaderboard", "submission", "runs", "code_files")
        return {name: _count(connection, name) for name in names} | {"bytes": _bytes(connection)}


def _casted(statement: str, values: dict[str, Any]) -> str:
    for key, value in values.items():
        if isinstance(value, int):
            statement = statement.replace(f":{key}", f"CAST(:{key} AS integer)")
    return statement


def _count(connection: Connection, name: str) -> int:
    return int(connection.scalar(text(f"SELECT count(*) FROM leaderboard.{name}")))


def _bytes(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT pg_database_size(current_database())")))


def _imported(folder: Path, old: str, new: str, options: list[str]) -> dict[str, Any]:
    """Run the command in a process of its own, and return what it took and what it said."""
    environment = os.environ | {"KERNELCUP_HOME": str(folder), "KERNELCUP_DATABASE": new}
    command = [sys.executable, "-m", "kernelcup", "kernelbot", "import", old, "--json", *options]
    begun = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.read())
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    found = {
        "seconds": round(time.monotonic() - begun, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": round(used.ru_maxrss / 1024),
        "users": said["users"],
        "renamed": len(said["notes"].get("shown name -> account", [])),
        "submissions": said["submissions"],
        "places": said["places"],
        "differences": len(said["differences"]),
    }
    print(f"{' '.join(options) or 'import'}: {found}", flush=True)
    return found


def _readers(db: Database, url: str, folder: Path, submissions: int) -> dict[str, Any]:
    config = Config(
        file=None,
        data_dir=folder / "data",
        runtime_dir=folder / "run",
        database_url=url,
        configured_devices=tuple(make_device(name=name) for name in DEVICES),
        environ={},
        sandbox_required=True,
        sandbox_environment=(),
    )
    app = create_app(Platform(db=db, config=config, secret="kernelbot-import" * 3))
    board, found = "/api/v1/leaderboards/board-7/standings/H100", {}
    number = next(each for each in range(submissions // 2, submissions) if each % 40 < 13 and each % 11)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        paths = (board, f"{board}/history", "/", "/b/board-7", "/b/board-7/history", f"/s/{number}")
        for path in paths:
            name = path.replace(str(number), "N")
            found[name] = _times(name, lambda path=path: client.get(path).raise_for_status())
    if db.engine.dialect.name == "postgresql":
        views.make(db, "leaderboard")
        with db.read() as session:
            one = PLACES.format("leaderboard").replace("WHERE", "WHERE l.name = 'board-7' AND")
            found["the old site's places of a board"] = _times(
                "views", lambda: session.execute(text(one)).all(), 5
            )
    return found


def _times(name: str, work: Callable[[], object], repeats: int = REPEATS) -> dict[str, float]:
    work()
    walls = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        walls.append((time.perf_counter() - begun) * 1000)
    found = {"p50_ms": round(percentile(walls, 50), 1), "p95_ms": round(percentile(walls, 95), 1)}
    print(f"{name}: {found}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
