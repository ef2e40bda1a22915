"""Usage: scripts/with-postgres .venv/bin/python benchmarks/kernelbot_import.py [--submissions N] [--sqlite]

Makes up a KernelBot database (3,000 users, 20 leaderboards, 300,000 submissions, 990,000 runs, among them expelled ones
and failed secret runs; and the rows to which KernelBot gave places), and imports it into an empty database of
PostgreSQL, or a SQLite file: seconds and peak memory of a dry run, the import and a second one, each in a process of
its own; places compared; then milliseconds of standings, history and pages at that size, and on PostgreSQL of the old
site's query over the views and over KernelBot's tables. Last, some submissions are followed, and others brought back.
Ends with 1 where a place differs. Prints its figures beside the stored ones, and writes
benchmarks/results/kernelbot-import.json (with --submissions kernelbot-import-N.json).
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy import Connection, text
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kernelbot"))

from old_database import SCHEMA, TASK, odd_rows
from results import machine_facts, percentile, publish
from side_by_side import submit as submit_there
from test_views import PLACES

from builders import make_actor, make_board, make_device, make_report
from database_kinds import autocommitting, postgres_database
from kernelcup.app.access import HERE
from kernelcup.app.people import tokens
from kernelcup.app.people.queries import users as users_of
from kernelcup.app.people.tokens import create_token
from kernelcup.app.queue import lifecycle
from kernelcup.app.submissions.submit import submit
from kernelcup.client.transport import Client
from kernelcup.config.settings import Config
from kernelcup.domain import Actor, Role
from kernelcup.engine import migrate
from kernelcup.engine.database import Database
from kernelcup.http.app import create_app
from kernelcup.http.server import WebServer, listen, url_of
from kernelcup.http.state import Platform
from kernelcup.tables import IdentityRow, UserRow
from kernelcup_harness.protocol import Mode
from kernelcup_kernelbot import views
from kernelcup_kernelbot.following import Follower
from kernelcup_kernelbot.importing.source import opened
from kernelcup_kernelbot.returning import give_back
from service import allowed_scopes

ONE = "SELECT * FROM leaderboard.submission WHERE id = :id"
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
WHERE s.id % 40 < 13 OR (NOT m.secret AND m.mode <> 'leaderboard');
INSERT INTO leaderboard.submission_job_status (submission_id, status)
SELECT id, CASE WHEN id % 83 = 0 THEN 'hacked' WHEN id % 11 = 0 THEN 'failed' ELSE 'succeeded' END
FROM leaderboard.submission;
UPDATE leaderboard.submission SET status = CASE WHEN id % 2 = 0 THEN 'hacked' ELSE 'inactive' END WHERE id % 79 < 2;
UPDATE leaderboard.runs SET passed = false WHERE secret AND mode = 'test' AND submission_id % 73 = 0;
UPDATE leaderboard.runs SET passed = false WHERE secret AND mode = 'leaderboard' AND submission_id % 71 = 0;
UPDATE leaderboard.runs SET passed = NULL WHERE secret AND mode = 'leaderboard' AND submission_id % 67 = 0;
UPDATE leaderboard.runs SET runner = 'elsewhere' WHERE secret AND submission_id % 61 = 0;
UPDATE leaderboard.runs SET score = NULL WHERE NOT secret AND submission_id % 59 = 0;
DELETE FROM leaderboard.runs WHERE secret AND submission_id % 53 = 0;
UPDATE leaderboard.runs SET mode = 'benchmark' WHERE NOT secret AND mode = 'leaderboard' AND submission_id % 47 = 0;
UPDATE leaderboard.submission SET done = false, submission_time = now() WHERE id % 1009 = 0;
UPDATE leaderboard.submission_job_status SET status = 'running' WHERE submission_id % 1009 = 0
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
            readers = _readers(db, old, new, folder, given.submissions)
            moved = _moved(db, old, new, folder)
            target = db.engine.dialect.name
    load = [round(each, 1) for each in os.getloadavg()]
    result = {**machine_facts(), "load_at_end": load, "target": target, "kernelbot": sizes}
    size = "" if given.submissions == parser.get_default("submissions") else f"-{given.submissions}"
    publish(f"kernelbot-import{size}.json", result | {"steps": steps, "readers": readers, "moved": moved})
    wrong = (
        any(step["differences"] for step in steps.values())
        or moved["places of what was brought back"] != moved["brought back"]
    )
    return int(wrong)


def _fill(url: str, submissions: int) -> dict[str, int]:
    values = {"users": USERS, "boards": BOARDS, "submissions": submissions, "codes": max(submissions // 3, 1)}
    with autocommitting(url) as connection:
        connection.exec_driver_sql(SCHEMA)
        for statement in FILL.split(";\n"):
            wanted = {key: value for key, value in values.items() if f":{key}" in statement}
            wanted |= {"task": json.dumps(TASK)} if ":task" in statement else {}
            connection.execute(text(_casted(statement, wanted)), wanted)
        connection.exec_driver_sql(
            "INSERT INTO leaderboard.leaderboard (name, deadline, task) VALUES ('odd', now(), '{}')"
        )
        odd_rows(connection, BOARDS + 1, submissions + 1)
        connection.exec_driver_sql(
            "SELECT setval('leaderboard.submission_id_seq', max(id)) FROM leaderboard.submission"
        )
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
        **{name: said[name] for name in ("submissions", "results", "rejected", "ungraded", "waiting")},
        "places": said["places"],
        "differences": len(said["differences"]),
    }
    print(f"{' '.join(options) or 'import'}: {found}", flush=True)
    return found


def _readers(db: Database, old: str, url: str, folder: Path, submissions: int) -> dict[str, Any]:
    app = create_app(_platform(db, url, folder))
    board, found = "/api/v1/leaderboards/board-7/standings/H100", {}
    number = next(each for each in range(submissions // 2, submissions) if each % 40 < 13 and each % 11)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        paths = (board, f"{board}/history", "/", "/b/board-7", "/b/board-7/history", f"/s/{number}")
        for path in paths:
            name = path.replace(str(number), "N")
            found[name] = _times(name, lambda path=path: client.get(path).raise_for_status())
    if db.engine.dialect.name == "postgresql":
        views.make(db, "leaderboard")
        query = PLACES.format("leaderboard")
        one = query.replace("WHERE r.passed", "WHERE l.name = 'board-7' AND r.passed")
        asked = {
            "all places": query,
            "places of a board": one,
            "a submission": ONE.replace(":id", str(number)),
        }
        for where, there in (("KernelBot's tables", old), ("the views", url)):
            with autocommitting(there) as connection:
                connection.exec_driver_sql("ANALYZE")
                for what, said in asked.items():
                    name = f"{what} over {where}"
                    found[name] = _times(name, lambda said=said: connection.execute(text(said)).all(), 5)
    return found


def _platform(db: Database, url: str, folder: Path) -> Platform:
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
    return Platform(db=db, config=config, secret="kernelbot-import" * 3)


def _moved(db: Database, old: str, url: str, folder: Path) -> dict[str, Any]:
    """Follow some new submissions, then bring some that came here back, and count."""
    switch = datetime.now(UTC)
    make_board(db, name="shadow", devices=["H100"], now=switch)
    admin = make_actor(db, "follower", role=Role.ADMIN)
    scopes = allowed_scopes(Role.ADMIN)
    token = create_token(db, admin, entry=HERE, name="follow", scopes=scopes, now=switch).secret
    sock = listen("127.0.0.1", 0)
    server = WebServer(_platform(db, url, folder), sock)
    server.wait_until_ready()
    with autocommitting(old) as connection, Client(url_of(sock), token) as client:
        boards, journal = {"board-7": "shadow"}, folder / "journal.csv"
        follower = Follower(url=old, client=client, boards=boards, devices={}, journal=journal)
        follower.step()
        users = connection.scalars(text("SELECT id FROM leaderboard.user_info ORDER BY id LIMIT 20")).all()
        for number, user in enumerate(users):
            submit_there(connection, f"x = {number}\n".encode(), user=user, board=7)
        sent = [follower.step().sent, follower.step().sent]
    server.stop()
    sock.close()
    with db.read() as session:
        names = sa.select(UserRow).join(IdentityRow).where(IdentityRow.subject.in_(users))
        people = [users_of.get(session, row.id) for row in session.scalars(names)]
    _judge(db, len(users))
    for number, each in enumerate(people):
        author = Actor(
            user_id=each.id, name=each.name, role=each.role, scopes=tokens.scopes_of(Role.PARTICIPANT)
        )
        content, mode = f"y = {number}\n".encode(), Mode.LEADERBOARD
        given = {"board": "board-7", "devices": ["H100"], "now": datetime.now(UTC)}
        submit(db, user=author, file_name="kernel.py", content=content, mode=mode, **given)
    _judge(db, len(people))
    found: dict[str, Any] = {"followed": sent[0], "followed again": sent[1]}
    for name in ("brought back", "brought back again"):
        with opened(old, writes=True) as source:
            found[name] = give_back(source, db, since=switch, gpus={}).written["submission"]
    first = PLACES.format("leaderboard")
    with autocommitting(old) as connection:
        rows = connection.execute(
            text(f"SELECT count(*) FROM ({first}) p WHERE name = 'board-7' AND score < 1e-7")
        )
        found["places of what was brought back"] = rows.scalar()
    print(found, flush=True)
    return found


def _judge(db: Database, count: int) -> None:
    for number in range(count):
        now = datetime.now(UTC)
        lease = lifecycle.claim_next(db, owner="benchmark", lease_s=60, devices=["H100"], now=now)
        assert lease is not None
        report = make_report((1.0 + number,))
        lifecycle.finish(db, lease, report=report, harness_hash="00", machine="benchmark", now=now)


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
