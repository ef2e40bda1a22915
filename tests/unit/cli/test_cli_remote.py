"""Commands against a real server: what they print, and how they end."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs
from test_cli_commands import Command, Ended, command, home

from builders import (
    NOW,
    SUBMISSION,
    make_actor,
    make_board,
    make_device,
    make_report,
    make_submission,
    make_task,
)
from fakes import FakeClock
from final_duels import close, hold_one
from hand_judging import Judging, judge_on_two_classes
from kernelcup.app.access import HERE
from kernelcup.app.boards.boards import get_board, list_boards
from kernelcup.app.boards.upload import load_upload
from kernelcup.app.people.tokens import create_token
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.progress import ProgressNotes
from kernelcup.app.results.freezes import freeze
from kernelcup.app.rules import limits
from kernelcup.app.submissions.submissions import list_views, show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.cli.backend.choosing import choose
from kernelcup.cli.credentials import Credentials
from kernelcup.client import api as client_api
from kernelcup.client import requests
from kernelcup.client import transport as client_module
from kernelcup.client.api import Api
from kernelcup.client.core import NotReached
from kernelcup.client.task_upload import pack
from kernelcup.client.transport import Client
from kernelcup.config.settings import Config
from kernelcup.domain import OPERATOR, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import InvalidTask, NotFound, Paused, ServerUnavailable
from kernelcup.http.server import WebServer, listen, url_of
from kernelcup.http.state import Platform
from kernelcup.tables import LeaderboardRow, UserRow
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import Backend, DuelResult, Mode, RunReport, SourceTree, Verdict

__all__ = ["command", "home"]

SERVER = "https://cup.example.org"
OnEvent = Callable[[str], None]


@pytest.fixture
def db_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The server's database: of one kind, as who asks over HTTP sees no difference."""
    path = tmp_path / "server.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def server(db: Database, db_url: str, tmp_path: Path, clock: FakeClock) -> Iterator[str]:
    """A web server with two devices; nothing dispatches."""
    config = Config(
        file=None,
        data_dir=tmp_path / "data",
        runtime_dir=tmp_path / "run",
        database_url=db_url,
        configured_devices=(make_device(), make_device(name="MI300")),
        environ={},
        sandbox_required=True,
        sandbox_environment=(),
    )
    sock = listen("127.0.0.1", 0)
    web = WebServer(Platform(db=db, config=config, clock=clock, secret="a-secret-of-tests" * 3), sock)
    web.wait_until_ready()
    with capture_logs():  # which would be in what commands print: it is the same process
        yield url_of(sock)
        web.stop()
    sock.close()


@pytest.fixture
def ada(
    db: Database, server: str, home: Path, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A creator who signed in to the server on this machine, which has no database of its own."""
    actor = make_actor(db, "ada", role=Role.CREATOR)
    scopes = frozenset({Scope.READ, Scope.SUBMIT, Scope.MANAGE})
    secret = create_token(db, actor, name="test", scopes=scopes, entry=HERE, now=clock()).secret
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "KERNELCUP_HOME"):
        monkeypatch.delenv(name, raising=False)
    Credentials.load({"HOME": str(tmp_path)}).put(server, secret)
    return secret


@pytest.fixture
def board(db: Database) -> str:
    """A leaderboard at the server."""
    return make_board(db, devices=["H100"]).name


@pytest.fixture
def on_event(monkeypatch: pytest.MonkeyPatch) -> Callable[[OnEvent], None]:
    """Have something done when an event reaches the command line, before it is shown."""
    real = client_module.Client.stream

    def install(act: OnEvent) -> None:
        def stream(self: Client, path: str, *, last_id: int) -> Iterator[Any]:
            for event in real(self, path, last_id=last_id):
                act(event.kind)
                yield event

        monkeypatch.setattr(client_module.Client, "stream", stream)

    return install


def judge(db: Database, report: RunReport | None = None) -> None:
    """Judge what is next in the queue, noting its stages on the way."""
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100", "MI300"], now=NOW)
    assert lease is not None
    notes = ProgressNotes(db, lease.job, clock=lambda: NOW, monotonic=lambda: 0.0)
    notes.take({"event": "stage", "stage": "test", "cases": 3})
    notes.take({"event": "case", "stage": "test", "case": 0})
    notes.take({"event": "stage_end", "stage": "test", "verdict": "accepted"})
    lifecycle.finish(db, lease, report=report or make_report(), harness_hash="f" * 64, machine="m", now=NOW)


def wrong_answer() -> RunReport:
    """Return a report of a wrong answer."""
    return dataclasses.replace(make_report(), verdict=Verdict.WRONG_ANSWER, message="case 1 is off")


def body_of(ended: Ended) -> dict[str, Any]:
    """Return the one object that a command printed while it named its server."""
    assert ended.out.count("\n") == 1
    body = json.loads(ended.out)
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize(
    ("environ", "given", "wanted"),
    [
        ({}, {}, SERVER),
        ({"KERNELCUP_SERVER": "other.example.org"}, {}, "https://other.example.org"),
        ({"KERNELCUP_SERVER": "other.example.org", "KERNELCUP_HOME": "/x"}, {}, "https://other.example.org"),
        ({"KERNELCUP_SERVER": "other.example.org"}, {"server": "127.0.0.1:1"}, "http://127.0.0.1:1"),
        ({"KERNELCUP_SERVER": "other.example.org"}, {"local": True}, None),
        ({"KERNELCUP_HOME": "/x"}, {}, None),
        ({"KERNELCUP_CONFIG": "/x"}, {}, None),
        ({"KERNELCUP_DATABASE": "sqlite:///x"}, {}, None),
        ({"KERNELCUP_HOME": "/x"}, {"server": SERVER}, SERVER),
        ({}, {"config": Path("x")}, None),
        ({}, {"local": True}, None),
    ],
)
def test_options_then_the_environment_then_the_sign_in_choose_the_server(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ, given, wanted
) -> None:
    for name in ("XDG_CONFIG_HOME", "KERNELCUP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    Credentials.load({"HOME": str(tmp_path)}).put(SERVER, "kc_x")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert choose(**({"server": None, "local": False, "config": None} | given)) == wanted


def test_options_that_contradict_each_other_are_refused(command: Command) -> None:
    for other in (["--local"], ["--config", "x.toml"]):
        ended = command("board", "list", "--server", SERVER, *other)
        assert (ended.code, "contradict" in ended.err) == (3, True)


def test_a_submission_is_followed_to_its_report(command, ada, server, board, db, on_event) -> None:
    on_event(lambda kind: judge(db) if kind == "accepted" else None)
    ended = command("submit", "kernel.py", "--board", board)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("submission 1 to double (H100)\n#1 double on H100: kernel.py by ada")
    assert "✓ accepted" in ended.out
    assert "score 1 µs" in ended.out
    assert "ada on H100: rank 1" in ended.out
    lines = ended.err.splitlines()
    assert lines[0] == f"server: {server}"
    assert lines[1].startswith("H100: number 1 in the queue (")
    assert "H100: started" in lines
    assert "✓ accepted  H100 test 3/3" in lines


def test_the_exit_code_is_that_of_the_verdict_and_json_is_one_object(
    command, ada, board, db, on_event
) -> None:
    on_event(lambda kind: judge(db, wrong_answer()) if kind == "accepted" else None)
    ended = command("submit", "kernel.py", "--board", board, "--json")
    assert ended.code == 10
    (job,) = body_of(ended)["jobs"]
    assert (job["state"], job["verdict"], job["report"]["message"]) == (
        "done",
        "wrong_answer",
        "case 1 is off",
    )


def test_a_ranked_submission_tells_scripts_its_rank(command, ada, board, db, on_event) -> None:
    on_event(lambda kind: judge(db) if kind == "accepted" else None)
    places = body_of(command("submit", "kernel.py", "--board", board, "--json"))["places"]
    assert (places["H100"]["rank"], places["H100"]["user"]) == (1, "ada")


def test_a_script_signs_in_by_the_environment_at_the_named_server_alone(
    command, ada, server, monkeypatch, tmp_path: Path
) -> None:
    stored = Credentials.load({"HOME": str(tmp_path)})
    stored.remove(server)
    monkeypatch.setenv("KERNELCUP_TOKEN", ada)
    ended = command("board", "list", "--json")
    assert (ended.code, "set KERNELCUP_SERVER" in ended.out) == (4, True)
    monkeypatch.setenv("KERNELCUP_SERVER", server)
    assert "You are ada" in command("whoami").out
    assert command("submissions", "list").code == 0
    assert Credentials.load(dict(os.environ)).token("https://other.example.org") is None
    assert command("logout").code == 3  # it would revoke what the next script needs
    assert Credentials.load({"HOME": str(tmp_path)}).tokens == {}


def test_an_empty_list_names_the_server_and_the_sign_in(command, ada, server, tmp_path: Path) -> None:
    signed_in = command("board", "list").out
    assert f"{server} has no leaderboard that you may see" in signed_in
    Credentials.load({"HOME": str(tmp_path)}).remove(server)
    assert f"Next: kernelcup login {server}" in command("board", "list", "--server", server).out
    here = command("board", "list", "--local").out
    assert here.startswith("This machine's database has no leaderboard yet")


def test_who_goes_away_is_told_how_to_come_back_and_does(command, ada, board, db, on_event) -> None:
    def interrupt(kind: str) -> None:
        raise KeyboardInterrupt

    on_event(interrupt)
    ended = command("submit", "kernel.py", "--board", board)
    assert ended.code == 130
    assert "Next: kernelcup watch 1 " in ended.err
    assert not show_submission(db, 1).ended
    on_event(lambda kind: None)
    judge(db)
    assert "✓ accepted" in command("watch", "1").out


def test_who_watches_sees_what_happens(command, ada, board, db, on_event) -> None:
    queued = command("submit", "kernel.py", "--board", board, "--no-wait")
    assert (queued.code, "H100: number 1 in the queue (" in queued.out) == (0, True)
    assert queued.out.endswith("Next: kernelcup watch 1\n")
    on_event(lambda kind: judge(db, wrong_answer()) if kind == "accepted" else None)
    ended = command("watch", "1")
    assert ended.code == 10
    assert "H100: number 1 in the queue (" in ended.err
    assert "H100: started" in ended.err
    assert "case 1 is off" in ended.out


def test_a_submission_is_listed_shown_cancelled_and_deleted(command, ada, board) -> None:
    assert "no submission yet" in command("submissions", "list").out
    command("submit", "kernel.py", "--board", board, "--no-wait")
    (listed,) = body_of(command("submissions", "list", "--user", "me", "--json"))["submissions"]
    assert (listed["id"], listed["jobs"][0]["state"]) == (1, "queued")
    assert "report" not in listed["jobs"][0]
    assert "#1" in command("submissions", "list", "--board", board).out
    shown = body_of(command("submissions", "show", "1", "--json"))
    assert shown["jobs"][0]["position"] == 1
    assert shown["jobs"][0]["reason"]
    assert command("submissions", "show", "1", "--code").out == SUBMISSION
    assert body_of(command("cancel", "1", "--json")) == {"submission": 1, "cancelled_jobs": 1}
    assert command("watch", "1").code == 7
    assert body_of(command("submissions", "delete", "1", "--yes", "--json")) == {"deleted": 1}
    missing = command("submissions", "show", "1")
    assert (missing.code, "Next: kernelcup submissions list" in missing.err) == (3, True)


def test_pages_of_a_long_list_are_put_together(command, ada, board, monkeypatch) -> None:
    monkeypatch.setattr(requests, "PAGE", 2)
    for _ in range(5):
        command("submit", "kernel.py", "--board", board, "--no-wait")
    for limit, ids in ((20, [5, 4, 3, 2, 1]), (3, [5, 4, 3])):
        found = body_of(command("submissions", "list", "--limit", str(limit), "--json"))["submissions"]
        assert [each["id"] for each in found] == ids


def test_two_submissions_are_compared_at_the_server(command, ada, board, db, on_event) -> None:
    for _ in range(2):
        command("submit", "kernel.py", "--board", board, "--no-wait")
        judge(db)
    cases = [[0.49, 0.5, 0.9]]
    duel = DuelResult(ratio=0.5, low=0.49, high=0.51, verdict="faster", blocks=10, cases=cases)
    on_event(lambda kind: judge(db, make_report(duel=duel)) if kind == "accepted" else None)
    ended = command("compare", "#1", "2", "--device", "h100")
    assert ended.code == 0, ended.err
    assert "#1 and #2, case by case" in ended.out
    assert "−50.0 %" in ended.out
    assert "comparison 3 of double on H100" in ended.out
    assert "#1 is 100.0 % faster than #2 (98 % interval 96.1 to 104.1 %)." in ended.out
    assert body_of(command("compare", "one", "2", "--json"))["error"]["code"] == "invalid_value"


def test_a_final_is_held_at_the_server(command, ada, board, db, clock, on_event) -> None:
    command("submit", "kernel.py", "--board", board, "--no-wait")
    judge(db)
    make_submission(db, user="bob", devices=["H100"])
    judge(db, make_report([1010.0]))
    with db.write() as session:
        creator = select(UserRow.id).where(UserRow.name == "ada").scalar_subquery()
        session.execute(update(LeaderboardRow).values(creator_id=creator))
    refused = body_of(command("board", "final", board, "--json"))["error"]
    assert refused["code"] == "leaderboard_open"
    close(db, board, clock())
    on_event(lambda kind: hold_one(db, 3, "H100", {1: 1.1, 2: 1.0}, NOW) if kind == "accepted" else None)
    ended = command("board", "final", board)
    assert ended.code == 0, ended.err
    assert "#2 is 10.0 % faster than #1 (simultaneous interval" in ended.out
    (final,) = body_of(command("board", "show", board, "--json"))["finals"]
    assert [each["user"] for each in final["places"]] == ["bob", "ada"]


def test_a_comparison_that_is_cancelled_says_so(command, ada, board, db, clock, on_event) -> None:
    for _ in range(2):
        command("submit", "kernel.py", "--board", board, "--no-wait")
        judge(db)
    on_event(lambda kind: cancel_submission(db, 3, by=OPERATOR, now=clock()) if kind == "accepted" else None)
    ended = command("compare", "1", "2")
    assert ended.code == 7
    assert "The comparison was cancelled." in ended.out


def test_classes_of_machines_that_were_not_compared_have_tables_of_their_own(
    command, ada, board, db, clock
) -> None:
    judge_on_two_classes(Judging(db, clock))
    shown = " ".join(command("standings", board, "--limit", "1").out.split())
    assert "not comparable between classes of machines" in shown
    assert shown.index("driver 550") < shown.index("ada") < shown.index("driver 580") < shown.index("bob")
    mine = " ".join(command("submissions", "show", "1").out.split())
    assert "Judged on 1 x H100; driver 550; 16 cores, 128 GiB" in mine
    assert "among results of 1 x H100; driver 550" in mine
    (job,) = body_of(command("submissions", "show", "1", "--json"))["jobs"]
    assert job["host_class"] == "1 x H100; driver 550; 16 cores, 128 GiB"
    body = body_of(command("standings", board, "--json"))
    assert [(each["rank"], each["host_class"].split("; ")[1]) for each in body["standings"]["H100"]] == [
        (1, "driver 550"),
        (1, "driver 580"),
    ]


def test_the_ranking_is_shown(command, ada, board, db) -> None:
    assert "no one is ranked yet" in command("standings").out
    command("submit", "kernel.py", "--board", board, "--no-wait")
    judge(db)
    body = body_of(command("standings", board, "--device", "h100", "--json"))
    assert [(each["rank"], each["user"]) for each in body["standings"]["H100"]] == [(1, "ada")]
    assert "double on H100" in command("standings", board).out
    assert body_of(command("standings", board, "--device", "B200", "--json"))["error"]["code"] == (
        "unknown_device"
    )


def test_a_leaderboard_is_shown_to_people_and_as_json(command, ada, db) -> None:
    make_board(db, task=make_task(hidden_tests=[{"size": 31337}], templates={"Python": "text"}))
    ended = command("board", "show", "double")
    assert "Double every element." in ended.out
    assert "and 1 hidden" in ended.out
    body = body_of(command("board", "show", "double", "--json"))
    templates = body["task"]["templates"]
    assert templates.pop("CUDA C++").startswith("//!POPCORN leaderboard double\n")
    assert templates == {"Python": "#!POPCORN leaderboard double\ntext"}
    assert "ref_kernel" in body["task"]["sources"]["reference.py"]
    assert body["task"]["hidden_tests"] == 1
    assert "31337" not in json.dumps(body) + ended.out
    assert "double  [H100]" in command("board", "list").out


def test_a_leaderboard_is_made_changed_and_deleted(command, ada, db) -> None:
    made = body_of(command("board", "create", "identity", "--device", "H100", "--json"))
    assert (made["name"], made["devices"], made["creator"]) == ("identity", ["H100"], "ada")
    seen = command("board", "update", "identity", "--deadline", "2030-01-01", "--preview")
    assert "deadline: none -> 2030-01-01 23:59:59 UTC" in seen.out
    assert get_board(db, "identity").deadline is None
    assert command("board", "update", "identity", "--deadline", "2030-01-01", "--json").code == 3
    done = body_of(command("board", "update", "identity", "--deadline", "2030-01-01", "--yes", "--json"))
    assert done["updated"]
    assert done["settings"]["deadline"]["new"].startswith("2030-01-01T23:59:59")
    assert get_board(db, "identity").deadline is not None
    ended = command("board", "delete", "identity", "--confirm", "identity", "--json")
    assert body_of(ended) == {"deleted": "identity"}
    assert list_boards(db) == []


def test_a_task_is_replaced_and_its_results_are_judged_again(
    command, ada, db, tmp_path: Path, task_folder: Path
) -> None:
    assert command("board", "create", str(task_folder), "--device", "H100").code == 0
    command("submit", "kernel.py", "--board", "mine", "--no-wait")
    judge(db)
    before = get_board(db, "mine").task_hash
    text = (task_folder / "task.yml").read_text()
    (task_folder / "task.yml").write_text(text.replace("size: 1024", "size: 2048"))
    told = command("board", "update", "mine", str(task_folder), "--yes").out
    assert "are out of the standings" in told
    assert "\n  kernelcup admin rejudge mine\n" in told
    (task_folder / "task.yml").write_text(text.replace("size: 1024", "size: 4096"))
    ended = command("board", "update", "mine", str(task_folder), "--yes", "--rejudge", "--members-only")
    assert ended.code == 0, ended.err
    assert "benchmarks" in ended.out
    assert "1 ranked results are judged again" in ended.out
    after = get_board(db, "mine")
    assert after.task_hash != before
    assert after.visibility.value == "closed"
    assert not show_submission(db, 1).ended


def test_copies_share_the_first_place_where_times_mean_nothing(command, ada, db, clock) -> None:
    make_board(db, name="triple", devices=["emulated"])
    for user, time_ns in {"ada": 12.9e6, "bob": 2.3e6, "cyn": 271e6}.items():
        make_submission(db, board="triple", user=user, now=clock())
        lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["emulated"], now=clock())
        report = make_report([time_ns], backend=Backend.EMULATED, comparable=False)
        lifecycle.finish(db, lease, report=report, harness_hash="f" * 64, machine="m", now=clock())
    shown = " ".join(command("standings", "triple").out.split())
    assert shown.index("1= ada correct") < shown.index("1= bob correct") < shown.index("1= cyn correct")
    assert "times mean nothing on this device: all correct results share the first place" in shown
    body = body_of(command("standings", "triple", "--json"))
    assert [(each["rank"], each["ranked_by"], each["low_s"]) for each in body["standings"]["emulated"]] == [
        (1, "correctness", None)
    ] * 3
    assert "without a GPU all correct results share the first place" in command("board", "show", "triple").out
    assert "ada on emulated: rank 1=, correct (#1)" in command("submissions", "show", "1").out


def test_a_freeze_is_told_with_the_standings(command, ada, board, db, clock) -> None:
    command("submit", "kernel.py", "--board", board, "--no-wait")
    freeze(db, OPERATOR, board, NOW, now=clock())
    clock.advance(5)
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=clock())
    lifecycle.finish(db, lease, report=make_report(), harness_hash="f" * 64, machine="m", now=clock())
    shown = command("standings", board)
    assert "double on H100: no one is ranked yet" in shown.out
    assert "Frozen since 2026-06-01 12:00:00 UTC; later results are not shown until the end." in shown.out
    assert body_of(command("standings", board, "--json"))["frozen_since"] == "2026-06-01T12:00:00+00:00"
    ended = command("submissions", "show", "1")
    assert "Frozen since 2026-06-01 12:00:00 UTC; yours is not shown until the end." in ended.out
    assert "rank 1" not in ended.out
    assert "frozen since 2026-06-01 12:00:00 UTC" in command("board", "show", board).out


@pytest.fixture
def task_folder(tmp_path: Path) -> Path:
    """A task that uses a file beside its folder, and has one that it does not name."""
    folder = tmp_path / "tasks" / "mine"
    folder.mkdir(parents=True)
    (folder / "task.yml").write_text(
        "lang: py\n"
        "description: Double.\n"
        "files:\n"
        '  - {name: submission.py, source: "@SUBMISSION@"}\n'
        "  - {name: reference.py, source: reference.py}\n"
        "  - {name: tools.py, source: ../tools.py}\n"
        "tests:\n  - {size: 16, seed: 1}\n"
        "benchmarks:\n  - {size: 1024, seed: 2}\n"
    )
    (folder / "reference.py").write_text(make_task().sources["reference.py"])
    (folder / "notes.txt").write_text("mine alone")
    (tmp_path / "tasks" / "tools.py").write_text("TOOL = 1\n")
    return folder


def test_exactly_the_files_that_a_task_names_are_packed(task_folder: Path) -> None:
    task, files = pack(task_folder)
    assert sorted(files) == ["mine/reference.py", "mine/task.yml", "tools.py"]
    assert task == load_task(task_folder) == load_upload(files)
    assert pack(task_folder / "task.yml")[1] == files
    with pytest.raises(NotFound):
        pack(task_folder / "none")
    (task_folder / "reference.py").unlink()
    with pytest.raises(InvalidTask):
        pack(task_folder)


def test_who_one_is_at_the_server_is_said_by_the_token(command, ada, board, db) -> None:
    for args in (["submit", "kernel.py", "--board", board], ["cancel", "1"], ["board", "create", "identity"]):
        ended = command(*args, "--user", "eve")
        assert (ended.code, "--user: the server knows you" in ended.err) == (3, True)
    assert list_views(db) == []


def test_who_has_not_signed_in_reads_and_is_sent_to_sign_in(
    command, server, board, home, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("KERNELCUP_SERVER", server)
    assert "double" in command("board", "list").out
    ended = command("submit", "kernel.py", "--board", board)
    assert ended.code == 3
    assert f"Next: kernelcup login {server}" in ended.err


def test_whoami_shows_how_much_may_still_be_submitted(command, ada, board, db) -> None:
    limits.add_limit(db, OPERATOR, text="10/hour", board=board, now=NOW)
    command("submit", "kernel.py", "--board", board, "--no-wait")
    (left,) = command("whoami", "--board", board, "--json").body["budget"]["H100"]
    assert (left["used"], left["remaining"]) == (1, 9)
    text = f"double on H100: {left['limit']}: 1 used, 9 left, more from 2026-06-01 13:00:00 UTC"
    assert text in command("whoami", "--board", board).out
    assert "budget" not in command("whoami", "--json").body


class Answers:
    """A server that answers as it is told, one after the other; what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.left = list(answers)
        self.asked: list[httpx.Request] = []
        self.slept: list[float] = []
        self.told: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.left.pop(0) if self.left else httpx.ConnectError("refused")
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def api(self) -> Api:
        """A client of it."""
        client = Client(SERVER, "kc_x", transport=httpx.MockTransport(self))
        return Api(client, sleep=self.slept.append, on_retry=self.told.append)


MADE = {
    "id": 7,
    "leaderboard": "double",
    "user": "ada",
    "mode": "test",
    "file_name": "k.py",
    "devices": ["H100"],
    "created_at": NOW.isoformat(),
    "jobs": [],
}
WAITS = {
    "id": 1,
    "device": "H100",
    "state": "queued",
    "attempt": 1,
    "reason": "",
    "waiting": None,
    "score_s": None,
}


def refusal(status: int, code: str, **more: Any) -> httpx.Response:
    """Answer with an error in our shape."""
    return httpx.Response(status, json={"error": {"code": code, "message": f"about {code}", **more}})


def submit(api: Api) -> int:
    """Submit something."""
    return api.submit(code=SourceTree.of("x", "k.py"), mode=Mode.TEST, key="one").id


def test_a_server_that_does_not_answer_is_asked_again_with_the_same_key() -> None:
    answers = Answers(
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.Response(502, text="<html>"),
        refusal(503, "storage_unavailable"),
        httpx.Response(201, json=MADE),
    )
    assert submit(answers.api) == 7
    assert {request.headers["idempotency-key"] for request in answers.asked} == {"one"}
    assert len(answers.asked) == 5
    assert len(answers.told) == len(answers.slept) == 4


def test_one_that_never_answers_is_given_up() -> None:
    answers = Answers()
    with pytest.raises(NotReached, match="refused"):
        submit(answers.api)
    assert len(answers.asked) == len(client_api.PAUSES_S) + 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(503, "paused"), Paused),
        (refusal(404, "not_found"), NotFound),
        (refusal(500, "bug"), ServerUnavailable),
        (httpx.Response(404, text="nothing"), ServerUnavailable),
        (httpx.Response(201, json={"id": 7}), ServerUnavailable),
        (httpx.Response(201, json={**MADE, "mode": "new"}), ServerUnavailable),
    ],
)
def test_a_refusal_is_not_tried_again(answer: httpx.Response, error: type[Exception]) -> None:
    answers = Answers(answer)
    with pytest.raises(error):
        submit(answers.api)
    assert len(answers.asked) == 1


def stream_of(*events: tuple[int, str]) -> httpx.Response:
    """Answer with events."""
    text = ": ping\n\n" + "".join(
        f'id: {number}\nevent: {kind}\ndata: {{"job": 1,\ndata: "data": {{}}}}\n\n' for number, kind in events
    )
    return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})


def test_a_stream_that_breaks_is_taken_up_where_it_was() -> None:
    answers = Answers(
        stream_of((1, "accepted"), (2, "started")),
        httpx.Response(200, json={**MADE, "jobs": [WAITS]}),
        httpx.ConnectError("refused"),
        refusal(429, "rate_limited", retry_after_s=3),
        stream_of((3, "finished"), (4, "done")),
        httpx.Response(200, json=MADE),
    )
    found = [(event.id, event.kind) for event in answers.api.follow(7)]
    assert found == [(1, "accepted"), (2, "started"), (3, "finished"), (4, "done")]
    streams = [request for request in answers.asked if request.url.path.endswith("/events")]
    assert [request.headers["last-event-id"] for request in streams] == ["0", "2", "2", "2"]
    assert 3 in answers.slept


def test_a_stream_that_never_comes_back_is_given_up() -> None:
    with pytest.raises(NotReached):
        list(Answers().api.follow(7))
    silent = Answers(*[stream_of(), httpx.Response(200, json={**MADE, "jobs": [WAITS]})] * 20)
    with pytest.raises(ServerUnavailable, match="does not say"):
        list(silent.api.follow(7))


def test_a_crash_report_has_no_token(command, home, tmp_path, monkeypatch) -> None:
    from kernelcup.cli.backend import choosing

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("Bearer kc_secret-of_mine")

    monkeypatch.setattr(choosing, "choose", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["kernelcup", "login", "--token", "kc_other-secret"])
    assert command("board", "list").code == 1
    (crash,) = tmp_path.glob("kernelcup-crash-*.txt")
    text = crash.read_text()
    assert "Bearer kc_[left out]" in text
    assert "secret" not in text.replace("kc_[left out]", "")
