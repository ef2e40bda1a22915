"""What admins do with the existing client, and by its other addresses."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from pyarrow import parquet

from builders import (
    NOW,
    REFERENCE,
    SUBMISSION,
    make_actor,
    make_board,
    make_submission,
)
from hand_judging import Judging
from kernelcup.app.boards import boards, git_source
from kernelcup.app.people.accounts import get_user
from kernelcup.config.settings import Config
from kernelcup.domain import Role, Visibility
from kernelcup.errors import ConfigError
from kernelcup_harness.protocol import Mode
from kernelcup_kernelbot import settings
from popcorn_client import ApplicationError, PopcornClient

CODE = SUBMISSION.encode()
TASK = """\
files:
  - {name: reference.py, source: reference.py}
  - {name: submission.py, source: "@SUBMISSION@"}
lang: py
description: Twice.
gpus: [h100]
tests:
  - {size: 16, seed: 1}
benchmarks:
  - {size: 1024, seed: 2}
"""


def write_task(folder: Path, text: str = TASK) -> None:
    folder.mkdir(parents=True)
    (folder / "task.yml").write_text(text)
    (folder / "reference.py").write_text(REFERENCE)


@pytest.fixture
def problems(platform, tmp_path) -> Path:
    """A folder of problems that the server has."""
    root = tmp_path / "problems"
    write_task(root / "twice")
    platform.config = dataclasses.replace(
        platform.config, extension_options={"kernelbot": {"problem_dir": str(root)}}
    )
    return root


def test_start_and_stop_are_the_pause_of_the_service(db, board, cli, admin, golden) -> None:
    assert admin.stop() == {"status": "ok", "accepts_jobs": False}
    assert admin.stop() == {"status": "ok", "accepts_jobs": False}
    with pytest.raises(ApplicationError, match="503 Service Unavailable"):
        cli.submit("kernel.py", CODE, leaderboard="double", gpu="H100", mode="test")
    assert admin.start() == {"status": "ok", "accepts_jobs": True}
    assert admin.start() == {"status": "ok", "accepts_jobs": True}
    golden("admin-start-stop", admin.exchanges)


def test_statistics_have_the_names_of_the_existing_service(db, board, admin, finish, golden) -> None:
    make_submission(db, board="double", devices=["H100"])
    finish()
    found = admin.stats()["stats"]
    assert (found["num_submissions"], found["num_users"], found["num_unique_codes"]) == (1, 1, 1)
    assert (found["num_run.H100"], found["total_runtime.H100"]) == (1, "PT2S")
    assert admin.stats(last_day=True)["stats"]["total.ada"] == "PT2S"
    golden("admin-stats", admin.exchanges)


def test_any_submission_is_shown_and_deleted(db, board, admin, finish, golden) -> None:
    make_submission(db, board="double", devices=["H100"])
    finish()
    shown = admin.get_submission(1)["submission"]
    assert (shown["submission_id"], shown["user_id"], shown["code"]) == (1, "ada", SUBMISSION)
    assert admin.delete_submission(1) == {"status": "ok", "submission_id": 1}
    with pytest.raises(ApplicationError, match="404 Not Found: There is no submission 1"):
        admin.delete_submission(1)
    with pytest.raises(ApplicationError, match="404"):
        admin.get_submission(1)
    golden("admin-submission", admin.exchanges)


def test_a_leaderboard_is_made_of_a_folder_and_brought_up_to_date(db, problems, admin, golden) -> None:
    assert admin.create_leaderboard("twice") == "twice-dev"
    board = boards.get_board(db, "twice-dev")
    assert (board.devices, board.creator, board.deadline) == (("H100",), "root", NOW.replace(year=2027))
    make_submission(db, board="twice-dev")
    (problems / "twice" / "task.yml").write_text(TASK.replace("Twice.", "Doubled."))
    assert admin.create_leaderboard("twice/") == "twice-dev"
    assert boards.get_board(db, "twice-dev").id == board.id
    assert boards.get_task(db, "twice-dev").description == "Doubled."
    assert admin.get_submission(1)["submission"]["leaderboard_name"] == "twice-dev"
    golden("admin-create-leaderboard", admin.exchanges)


@pytest.mark.jobs
def test_a_folder_without_gpus_or_with_a_broken_task_is_refused(problems, admin) -> None:
    write_task(problems / "bare", TASK.replace("gpus: [h100]\n", ""))
    with pytest.raises(ApplicationError, match=r"400 Bad Request: bare: its task.yml has no `gpus`"):
        admin.create_leaderboard("bare")
    write_task(problems / "broken", "tests: 1\n")
    with pytest.raises(ApplicationError, match=r"400 Bad Request: .*task\.yml:1"):
        admin.create_leaderboard("broken")


def test_the_folder_of_problems_is_beside_the_configuration(tmp_path) -> None:
    file = tmp_path / "kernelcup.toml"
    file.write_text('[extensions.kernelbot]\nproblem_dir = "problems"\n')
    environ = {"HOME": str(tmp_path)}
    config = Config.load(file, environ)
    assert settings.of(config).problems(config) == tmp_path / "problems"
    file.write_text("[extensions.kernelbot]\nproblem_folder = 1\n")
    with pytest.raises(ConfigError, match=r"extensions\.kernelbot\.problem_folder: unknown key"):
        Config.load(file, environ)


@pytest.mark.jobs
def test_a_server_without_such_a_folder_says_so(admin) -> None:
    with pytest.raises(ApplicationError, match="400 Bad Request: This server has no folder of problems"):
        admin.create_leaderboard("twice")


def test_a_leaderboard_with_submissions_is_deleted_with_force_only(db, board, admin, golden) -> None:
    make_submission(db, board="double", devices=["H100"])
    with pytest.raises(ApplicationError, match="409 Conflict: Leaderboard 'double' has submissions"):
        admin.delete_leaderboard("DOUBLE")
    assert admin.delete_leaderboard("DOUBLE", force=True)["leaderboard"] == "double"
    with pytest.raises(ApplicationError, match="404"):
        admin.delete_leaderboard("double", force=True)
    golden("admin-delete-leaderboard", admin.exchanges)


def test_problems_come_from_a_repository(db, admin, monkeypatch, golden) -> None:
    asked = []

    def fetch(actor, repository, branch, into) -> str:
        asked.append((repository, branch))
        write_task(into / "good" / "twice")
        write_task(into / "good" / "broken", "tests: 1\n")
        (into / "good.yaml").write_text(
            "name: Good\n"
            "problems:\n"
            "  - {directory: good/twice, name: twice, gpus: [H100]}\n"
            "  - {directory: good/broken, name: broken, gpus: [H100]}\n"
        )
        return "0" * 40

    monkeypatch.setattr(git_source, "fetch_problems", fetch)
    found = admin.update_problems(problem_set="good", closed=True)
    assert found["created"] == ["twice"]
    assert [each["name"] for each in found["errors"]] == ["broken"]
    assert boards.get_board(db, "twice").visibility is Visibility.CLOSED
    assert [each["name"] for each in admin.update_problems()["skipped"]] == ["twice"]
    assert asked == [("https://github.com/gpu-mode/reference-kernels", "main")] * 2
    golden("admin-update-problems", admin.exchanges)


def test_invites_are_made_used_listed_and_revoked(db, admin, client, person, golden) -> None:
    make_board(db, name="club", visibility=Visibility.CLOSED)
    make_board(db, name="other", visibility=Visibility.CLOSED)
    first, second = admin.generate_invites(["Club", "other"], 2)
    eve = PopcornClient(client, person("eve").token)
    assert sorted(eve.join(first)) == ["club", "other"]
    assert sorted(eve.join(first)) == ["club", "other"]
    assert [name for name, _ in eve.leaderboards()] == ["club", "other"]
    with pytest.raises(ApplicationError, match=r"status 4\d\d"):
        PopcornClient(client, person("mallory").token).join(first)
    listed = {each["code"]: each["user_name"] for each in admin.list_invites("CLUB")}
    assert listed == {first: "eve", second: None}
    assert admin.revoke_invite(second) is False
    assert admin.revoke_invite(first) is True
    with pytest.raises(ApplicationError, match=r"status 4\d\d"):
        eve.join(second)
    codes = {first: "CODE-1", second: "CODE-2"}
    golden("admin-invites", [replaced(each, codes) for each in admin.exchanges[:1]])
    golden("join", [replaced(each, codes) for each in eve.exchanges])


def replaced(exchange, words):
    """Give codes names that stay."""

    def change(value):
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        if isinstance(value, list):
            return [change(item) for item in value]
        for old, new in words.items():
            value = value.replace(old, new) if isinstance(value, str) else value
        return value

    return type(exchange)(request=change(exchange.request), answer=change(exchange.answer))


def test_invites_that_cannot_be_made_are_refused(board, admin) -> None:
    for body, text in (
        ({"count": 1}, "Must provide 'leaderboards' list or 'leaderboard' string"),
        ({"leaderboards": [], "count": 1}, "Must provide"),
        ({"leaderboard": "double", "count": 0}, "count must be an integer between 1 and 10000"),
        ({"leaderboard": "double", "count": 10_001}, "count must be an integer between 1 and 10000"),
        ({"leaderboard": "none", "count": 1}, "There is no leaderboard 'none'"),
        ({"leaderboard": "double", "count": "many"}, "count: "),
    ):
        with pytest.raises(ApplicationError, match=re.escape(text)):
            admin._ask("POST", "/admin/invites", json=body)
    assert len(admin._ask("POST", "/admin/invites", json={"leaderboard": "double"})["codes"]) == 1


@pytest.mark.jobs
def test_joining_without_a_code_or_with_a_wrong_one_is_refused(cli) -> None:
    with pytest.raises(ApplicationError, match="404 Not Found"):
        cli.join("wrong")
    with pytest.raises(ApplicationError, match="400 Bad Request: Missing required field: code"):
        cli._wire.ask("POST", "/user/join", timeout_s=30, json={})


def test_a_user_is_banned_by_the_id_that_is_shown(db, admin, person) -> None:
    ada = person("ada").actor
    assert admin._ask("POST", "/admin/ban/ada") == {"status": "ok", "user_id": "ada", "banned": True}
    assert get_user(db, make_actor(db, "root", Role.ADMIN), ada.name).banned_at == NOW
    assert admin._ask("DELETE", "/admin/ban/ada") == {"status": "ok", "user_id": "ada", "banned": False}
    with pytest.raises(ApplicationError, match="404 Not Found"):
        admin._ask("POST", "/admin/ban/nobody-there")


def test_all_of_a_users_submissions_are_deleted_at_once(db, board, admin, finish) -> None:
    for user in ("ada", "ada", "eve"):
        make_submission(db, board="double", devices=["H100"], user=user)
    finish()
    found = admin._ask("DELETE", f"/admin/submissions?leaderboard_id={board.id}&user_name=ADA")
    assert {key: found[key] for key in found if key.startswith("deleted")} == {
        "deleted_job_status": 2,
        "deleted_runs": 1,
        "deleted_submissions": 2,
    }
    for page, shown in (("limit=10", [3]), ("limit=1&offset=1", [])):
        listed = admin._ask("GET", f"/admin/leaderboards/double/submissions?{page}")
        assert listed["submission_ids"] == shown
    with pytest.raises(ApplicationError, match="404"):
        admin._ask("DELETE", "/admin/submissions?leaderboard_id=99&user_name=ada")


def test_a_leaderboard_is_closed_and_opened(db, board, admin, client) -> None:
    admin._ask("POST", "/admin/leaderboards/DOUBLE/visibility", json={"visibility": "closed"})
    assert client.get("/gpus/double").status_code == 404
    found = admin._ask("POST", "/admin/leaderboards/double/visibility", json={"visibility": "public"})
    assert found == {"status": "ok", "leaderboard": "double", "visibility": "public"}
    with pytest.raises(ApplicationError, match=r"422 .*visibility"):
        admin._ask("POST", "/admin/leaderboards/double/visibility", json={"visibility": "odd"})


def test_rate_limits_are_limits(db, board, admin, cli) -> None:
    path = "/admin/leaderboards/double/rate-limits"
    for amount in (5, 1):
        body = {"mode_category": "test", "max_submissions_per_hour": amount}
        admin._ask("PUT", path, json=body)
    (limit,) = admin._ask("GET", path)["rate_limits"]
    assert (limit["mode_category"], limit["max_submissions_per_hour"]) == ("test", 1)
    make_submission(db, board="double", devices=["H100"], mode=Mode.TEST)
    for way in (cli.submit, cli.submit_and_stay):
        with pytest.raises(ApplicationError, match="429 Too Many Requests: The limit is 1 practice"):
            way("kernel.py", CODE, leaderboard="double", gpu="H100", mode="test")
    admin._ask("DELETE", f"{path}/test")
    with pytest.raises(
        ApplicationError, match="404 Not Found: Leaderboard 'double' has no rate limit for test"
    ):
        admin._ask("DELETE", f"{path}/test")
    with pytest.raises(ApplicationError, match=r"422 .*mode_category"):
        admin._ask("PUT", path, json={"mode_category": "odd", "max_submissions_per_hour": 1})


def test_an_export_is_a_file_of_the_server_and_sent_nowhere(db, board, admin, clock, platform) -> None:
    Judging(db, clock).judge(2000)
    asked = {"leaderboard_ids": [board.id], "filename": "x.parquet"}
    answer = admin._ask("POST", "/admin/export-hf", json=asked)
    file = platform.config.data_dir / "exports" / "x.parquet"
    assert answer == {"status": "ok", "rows": 1, "repo_id": "", "filename": str(file)}
    assert parquet.read_table(file).column("user").to_pylist() == ["ada"]
    assert file.with_suffix(".md").read_text().startswith("---")
    with pytest.raises(ApplicationError, match=r"400 .*still open"):
        admin._ask("POST", "/admin/export-hf", json=asked | {"private": False})
    with pytest.raises(ApplicationError, match=r"404 .*no leaderboard 99"):
        admin._ask("POST", "/admin/export-hf", json=asked | {"leaderboard_ids": [99]})
    with pytest.raises(ApplicationError, match="422"):
        admin._ask("POST", "/admin/export-hf", json=asked | {"filename": "../x.parquet"})


def test_the_users_header_makes_nobody_an_admin(client, person) -> None:
    headers = {"X-Popcorn-Cli-Id": person("root", Role.ADMIN).token}
    assert client.post("/admin/stop", headers=headers).status_code == 401


def test_the_queue_of_a_gpu_is_shown_by_its_name(board, cli, client) -> None:
    empty = client.get("/runner_queue/H100").json()
    assert (empty["queued_jobs"], empty["status"]) == (0, "unavailable")
    path, headers = (
        "/submission/double/H100/test",
        {"X-Popcorn-Cli-Id": cli._wire.headers["X-Popcorn-Cli-Id"]},
    )
    assert client.post(path, headers=headers, files={"file": ("kernel.py", b"x = 1\n")}).status_code == 202
    queue = client.get("/runner_queue/h100").json()
    assert (queue["runner"], queue["gpu"], queue["queued_jobs"]) == ("KernelCup", "H100", 1)
    assert set(queue) == {
        "runner",
        "gpu",
        "queued_jobs",
        "running_jobs",
        "available_runners",
        "status",
        "error",
    }
    missing = client.get("/runner_queue/none")
    assert (missing.status_code, list(missing.json())) == (404, ["detail"])


def test_an_admin_submits_with_the_token_of_an_admin(board, client, person, admin) -> None:
    file = {"file": ("kernel.py", b"x = 1\n")}
    path = "/admin/submission/double/H100/test"
    assert client.post(path, files=file).status_code == 401
    wrong = {"Authorization": f"Bearer {person('ada').token}"}
    assert client.post(path, files=file, headers=wrong).status_code in (401, 403)
    answer = client.post(path, files=file, headers=admin._wire.headers)
    assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
    shown = admin.get_submission(answer.json()["details"]["id"])
    assert shown["submission"]["user_name"] == "root"
