"""The security faults of the existing service (``kernelbot-faults.md``), and that ours does not have them.

Where the fault is on the machine that runs submissions, the attack itself is in ``tests/judged/attacks``;
here is what the service gives such a machine.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from scenes import judge, play
from sqlalchemy.exc import IntegrityError, OperationalError
from starlette.testclient import TestClient
from test_cookies_and_headers import GOOD, fill, routes_of

from builders import NOW, SUBMISSION, make_board, make_device, make_report, make_task, zip_of
from fakes import FakeLauncher
from kernelcup import tables
from kernelcup.app.people import accounts, tokens
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.domain import Role, Scope
from kernelcup.errors import SignInNeeded
from kernelcup.http.app import create_app
from kernelcup.http.state import Platform
from kernelcup_harness.protocol import Verdict, to_json
from kernelcup_kernelbot.popcorn import routes as popcorn

ATTACKS = Path(__file__).parents[1] / "judged/attacks"

TASK_YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: %s}
lang: py
description: Copy.
tests: [{size: 4, seed: 1}]
benchmarks: [{size: 64, seed: 2}]
"""


@pytest.fixture
def scene(stored) -> dict[str, Any]:
    return stored(play)


@pytest.fixture
def rows(db):
    """Return what counts the rows of all tables: what is refused must leave none."""

    def count() -> dict[str, int]:
        with db.engine.connect() as connection:
            return {
                table.name: connection.execute(table.select()).fetchall().__len__()
                for table in tables.Base.metadata.sorted_tables
            }

    return count


def send(client: Any, board: str = "double", code: str = "x = 1", headers: Any = None, **more: Any) -> Any:
    body = {"leaderboard": board, "devices": ["H100"], "code": code} | more
    return client.post("/api/v1/submissions", json=body, headers=headers)


# 10.1 Security


def test_10_1_1_closed_leaderboards_and_secrets_are_in_no_list(client, scene) -> None:
    """1: the list of leaderboards published secret seeds, and all of closed ones, to anybody."""
    for headers in ({}, scene["bob"].headers):
        listed = client.get("/api/v1/leaderboards", headers=headers)
        assert [each["name"] for each in listed.json()["items"]] == ["double"]
        for path in ("", "/task", "/task/definition", "/brief", "/harness", "/standings/H100"):
            assert client.get(f"/api/v1/leaderboards/closed{path}", headers=headers).status_code == 404
        task = client.get("/api/v1/leaderboards/double/task", headers=headers).json()
        assert (task["hidden_cases"], task["hidden_tests"]) == ([], 1)
        assert "secret" not in json.dumps(task) + listed.text


def test_10_1_2_an_unset_secret_lets_nobody_in(client, scene) -> None:
    """2: with ADMIN_TOKEN unset, `Bearer None` was an admin."""
    unset = ("None", "null", "undefined", "", "kc_")
    for value in (*(f"Bearer {each}" for each in unset), "Bearer", "None", "Basic Og=="):
        for path in ("/api/v1/users", "/admin/stats"):
            assert client.get(path, headers={"Authorization": value}).status_code == 401, (path, value)


def test_10_1_2_what_admins_do_is_in_the_log_under_their_names(client, scene) -> None:
    """2: there was one token for all admins, and no audit."""
    root = scene["root"].headers
    client.post("/admin/stop", headers=root)
    client.put("/api/v1/pauses/leaderboard/double", json={"reason": "x"}, headers=root)
    client.post("/api/v1/users/bob/ban", json={"reason": "x"}, headers=root)
    entries = client.get("/api/v1/audit", headers=root).json()["items"][:3]
    assert [each["action"].rpartition(".")[2] for each in entries] == ["ban", "pause", "pause"]
    assert {each["actor"] for each in entries} == {"root"}


def test_10_1_2_a_secret_is_found_by_its_hash_and_not_compared(db, scene) -> None:
    """2: secrets were compared letter by letter, which takes the longer the more letters are right."""
    right = scene["ada"].token
    wrong = right[:-1] + ("a" if right[-1] != "a" else "b")
    with pytest.raises(SignInNeeded):
        tokens.authenticate(db, wrong, now=NOW)
    with db.engine.connect() as connection:
        stored = str(connection.execute(tables.table_of(tables.TokenRow).select()).fetchall())
    assert right not in stored


def test_10_1_3_a_submission_replaces_no_file_of_those_that_judge_it(db, client, scene) -> None:
    """3: a submission could rewrite the harness beside it. See also the attacks t80, t17 and v04."""
    code = "# what takes the place of nothing\n" + SUBMISSION
    for name in ("reference.py", "eval.py", "../harness.py", "task.py", "submission.py"):
        sent = send(client, code=code, headers=scene["ada"].headers, file_name=name)
        assert sent.status_code in (201, 400), name
    for spec in specs(db):
        assert set(spec.submission.files) == {"submission.py"}
        assert spec.sources == make_task().sources


def test_10_1_4_and_6_a_machine_gets_no_seed_and_no_credential(db, client, scene) -> None:
    """4, 6: seeds were in the environment and runners had credentials. See also t83, t49 and v15.

    Seeds are drawn by the runner on the machine, once, so that nobody else has one.
    """
    given = specs(db)
    assert given
    for spec in given:
        assert spec.secret_seed is None
        told = json.dumps(to_json(spec))
        for person in scene.values():
            assert person.token not in told
            assert f'"{person.actor.name}"' not in told
        assert "kc_" not in told
        assert "sqlite" not in told
        assert "postgresql" not in told
    assert len({spec.job_id for spec in given}) == len(given)


@pytest.mark.parametrize(
    ("faults", "attacks"),
    [
        ("3", ("t17_reference_patch", "t80_module_shadowing", "v04_result_forging")),
        ("4", ("t49_process_memory", "t77_frame_walk", "t79_memory_scan", "v15_snooping")),
        ("6", ("t83_credentials", "t84_exfiltration")),
        ("10", ("t81_cache_poisoning", "t82_runtime_install", "t86_leftovers")),
    ],
)
def test_10_1_3_4_6_10_what_submissions_did_to_machines_is_tried_for_real(faults, attacks) -> None:
    """3, 4, 6, 10: ``tests/judged/test_attacks.py`` judges these attacks, and none may be accepted."""
    for attack in attacks:
        told = YAML(typ="safe").load((ATTACKS / attack / "attack.yml").read_text(encoding="utf-8"))
        assert told["expect"]["verdicts"], (faults, attack)
        assert "accepted" not in told["expect"]["verdicts"], (faults, attack)


def test_10_1_6_a_run_is_not_to_be_had_by_everybody_who_signed_in(client, scene) -> None:
    """6: results, the secret run's too, could be fetched by any account."""
    for path in ("/api/v1/runs/2", "/api/v1/runs/2/artifacts/report.json"):
        report = client.get(path, headers=scene["bob"].headers).json()
        report = report.get("report", report)
        assert not report["secret_seed"]
        assert (report["message"], report["stdout"]["text"], report["stderr"]["text"]) == ("", "", "")
        for case in (each for stage in report["stages"] for each in stage["cases"]):
            found = [case[name] for name in ("message", "mismatch", "failed_on", "profile", "trace_gz64")]
            assert found == ["", None, None, None, None]
    assert client.get("/api/v1/runs/4", headers=scene["bob"].headers).status_code == 404


def test_10_1_7_a_task_reads_no_file_of_the_server(client, scene) -> None:
    """7: `source` could be any path, and the file was published."""
    for source in ("/etc/passwd", "../../../../../../etc/passwd", "~/.ssh/id_rsa", "/proc/self/environ"):
        files = {"copy/task.yml": (TASK_YML % source).encode(), "copy/reference.py": b""}
        for sent in ({"copy.zip": zip_of(files)}, files):
            answer = client.post(
                "/api/v1/leaderboards",
                data={"settings": '{"name": "stolen", "devices": ["H100"]}'},
                files=[("files", (name, content)) for name, content in sent.items()],
                headers=scene["grace"].headers,
            )
            assert answer.status_code == 400, source
            assert "root:" not in answer.text
            assert "PATH=" not in answer.text
            assert client.get("/api/v1/leaderboards/stolen").status_code == 404


def test_10_1_7_a_problem_set_is_no_way_to_the_servers_files_or_neighbours(client, scene) -> None:
    """7: the same by another door."""
    for repository in (
        *("/etc", "file:///etc", "ssh://x/y", "http://127.0.0.1/x", "https://169.254.169.254/x", "../.."),
    ):
        for path in ("/api/v1/problem-sets/sync", "/admin/update-problems"):
            answer = client.post(path, json={"repository": repository}, headers=scene["root"].headers)
            assert answer.status_code == 400, (repository, answer.text)


def test_10_1_7_a_folder_is_below_the_one_that_was_named(db, config, clock, scene, tmp_path) -> None:
    """7: `directory` could be any path."""
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "link").symlink_to(tmp_path)
    (tmp_path / "task.yml").write_text(TASK_YML % "reference.py", encoding="utf-8")
    options = {"kernelbot": {"problem_dir": str(tmp_path / "problems")}}
    headers = scene["root"].headers
    with another_process(db, dataclasses.replace(config, extension_options=options), clock) as client:
        for directory in ("..", "../..", "/etc", ".", "a/../..", "\0", "x" * 300, "~", "link"):
            answer = client.post("/admin/leaderboards", json={"directory": directory}, headers=headers)
            assert answer.status_code in (400, 404, 422), (directory, answer.text)


def test_10_1_8_nothing_is_kept_of_who_only_begins_to_sign_in(client, rows) -> None:
    """8: `/auth/init` wrote rows without limit; a `state` that anybody could make took accounts over."""
    before = rows()
    for path in (
        "/auth/init",
        "/auth/cli/github?code=x&state=eyJpZCI6MX0",
        "/auth/cli/discord?code=x&state=x",
    ):
        assert client.get(path).status_code == 400
    assert rows() == before


def test_10_1_8_a_token_expires_and_only_its_hash_is_kept(client, db, scene) -> None:
    """8: the ids of clients never expired and were kept as they are."""
    made = client.post("/api/v1/tokens", json={"name": "ci"}, headers=scene["root"].headers).json()
    assert made["expires_at"]
    with db.engine.connect() as connection:
        assert made["secret"] not in str(
            connection.execute(tables.table_of(tables.TokenRow).select()).fetchall()
        )


def test_10_1_9_an_error_of_the_database_is_not_told(client, monkeypatch, caplog) -> None:
    """9: exceptions with the database's text went to clients, and secrets into the log."""
    for kind, status in ((IntegrityError, 500), (OperationalError, 500)):

        def fail(*_: Any, kind: Any = kind, **__: Any) -> None:
            raise kind("SELECT secret FROM users", {}, Exception("relation users"))

        monkeypatch.setattr("kernelcup.app.boards.boards.list_boards", fail)
        with caplog.at_level(logging.CRITICAL):
            for path in ("/api/v1/leaderboards", "/leaderboards"):
                answer = client.get(path)
                assert answer.status_code == status
                assert "SELECT" not in answer.text
                assert "relation" not in answer.text


def test_10_1_10_builds_are_shared_by_nobody(db, client, scene) -> None:
    """10: containers and caches of builds were shared by users. See also t81, t86, t82 and t84."""
    send(client, headers=scene["bob"].headers, code=SUBMISSION)
    scopes = {spec.build_scope for spec in specs(db)}
    assert len(scopes) == 2  # ada's and bob's
    assert not {"ada", "bob"} & scopes


def test_10_1_11_every_command_for_admins_asks_for_one(client, scene, person, rows) -> None:
    """11: some commands for admins asked for no role. Ours of ``/api/v1``: ``test_route_permissions.py``.

    Pages of ours: ``tests/web/test_admin_pages.py``.
    """
    scopes = frozenset({Scope.READ, Scope.SUBMIT, Scope.MANAGE})
    weak = person("root", Role.ADMIN, scopes=scopes)
    commands = [each for each in routes_of(popcorn.router) if each[1].startswith("/admin/")]
    assert len(commands) > 15
    before = rows()
    for who in (None, scene["bob"], scene["ada"], scene["grace"], weak):
        for method, path in commands:
            headers = who.headers if who is not None else {}
            answer = client.request(method, fill(path, GOOD), headers=headers, json={})
            assert answer.status_code == (401 if who is None else 403), (who, method, path, answer.text)
            assert isinstance(answer.json()["detail"], str)
    assert {**rows(), "tokens": 0} == {**before, "tokens": 0}


def test_10_1_12_no_innocent_word_is_forbidden(client, scene) -> None:
    """12: `stream` anywhere in a file was refused. Work on other streams is found where it is measured: t40, v06."""
    for code in ("# upstream\nx = 1", "stream = 1", "import torch\ntorch.cuda.current_stream()"):
        assert send(client, code=code, headers=scene["ada"].headers).status_code == 201, code


def test_10_1_13_the_same_number_at_two_providers_is_two_people_and_a_ban_is_of_the_person(
    db, client, scene
) -> None:
    """13: numbers of GitHub and Discord were one key space, and a ban was of one number."""
    first = accounts.sign_in(db, provider="github", subject="42", login="kim", now=NOW)
    second = accounts.sign_in(db, provider="discord", subject="42", login="lee", now=NOW)
    assert first != second
    linking = tokens.authenticate(db, tokens.make_session(db, first, NOW), now=NOW)
    accounts.sign_in(db, provider="discord", subject="77", login="kim", now=NOW, actor=linking)
    client.post("/api/v1/users/kim/ban", json={"reason": "x"}, headers=scene["root"].headers)
    for provider, subject in (("github", "42"), ("discord", "77")):
        user = accounts.sign_in(db, provider=provider, subject=subject, login="kim", now=NOW)
        assert user == first
        secret = tokens.make_session(db, user, NOW)
        answer = send(client, headers={"Authorization": f"Bearer {secret}"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "banned")
    lee = {"Authorization": f"Bearer {tokens.make_session(db, second, NOW)}"}
    assert send(client, headers=lee).status_code == 201


# 10.2 Lost state and races, as they are seen from outside


def another_process(db: Any, config: Any, clock: Any) -> TestClient:
    platform = Platform(db=db, config=config, clock=clock, secret="s" * 32)
    return TestClient(create_app(platform), raise_server_exceptions=False)


def test_10_2_1_what_was_accepted_is_there_after_a_restart(db, config, clock, client, scene) -> None:
    """1: the queue was in one process's memory."""
    ada = scene["ada"].headers
    number = send(client, headers=ada).json()["id"]
    with another_process(db, config, clock) as later:
        shown = later.get(f"/api/v1/submissions/{number}", headers=ada).json()
        assert shown["jobs"][0]["state"] == "queued"
        assert shown["jobs"][0]["waiting"]["reason"]
        judge(db)
        judge(db)
        assert later.get(f"/api/v1/submissions/{number}", headers=ada).json()["ended"]


def test_10_2_3_a_submission_is_done_when_its_last_job_is(db, client, person) -> None:
    """3: the first failure marked a submission done, and the other device's result was lost."""
    ada = person("ada").headers
    make_board(db, devices=["H100", "MI300"])
    number = send(client, headers=ada, devices=["H100", "MI300"]).json()["id"]
    judge(db, make_report(verdict=Verdict.INTERNAL_ERROR, stages=[]), "H100")
    first = client.get(f"/api/v1/submissions/{number}", headers=ada).json()
    judge(db, device="MI300")
    second = client.get(f"/api/v1/submissions/{number}", headers=ada).json()
    assert (first["ended"], second["ended"]) == (False, True)
    assert [job["verdict"] for job in second["jobs"]] == ["internal_error", "accepted"]


def test_10_2_5_a_pause_outlives_the_process(db, config, clock, client, scene) -> None:
    """5: whether submissions are taken was in memory only."""
    client.put("/api/v1/pauses/service", json={"reason": "repair"}, headers=scene["root"].headers)
    with another_process(db, config, clock) as later:
        answer = send(later, headers=scene["ada"].headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "paused")


def test_10_2_6_parallel_requests_do_not_pass_a_limit_together(db, client, scene) -> None:
    """6: limits were looked at first and counted later. In 100 threads: ``tests/unit/app/test_limits.py``."""
    root, bob = scene["root"].headers, scene["bob"].headers
    client.post("/api/v1/limits", json={"text": "3/hour", "leaderboard": "double"}, headers=root)
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda number: send(client, headers=bob, code=f"x = {number}").status_code, range(12))
        )
    assert sorted(answers) == [201] * 3 + [429] * 9


def specs(db: Any) -> list[Any]:
    """Judge all that waits and return what the machine was given."""
    launcher = FakeLauncher()
    Dispatcher(db, devices=[make_device()], launchers={"fake": launcher}, clock=lambda: NOW).run_until_idle()
    return list(launcher.specs)
