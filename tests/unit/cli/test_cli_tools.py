"""The tools for coding agents, asked by the SDK's own client."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp import Client
from test_cli_commands import Command, command, home
from test_cli_remote import ada, db_url, judge, server

from builders import NOW, SUBMISSION, make_board, make_case, make_report, make_stage
from kernelcup.app.operation import OPERATIONS
from kernelcup.app.rules.limits import add_limit
from kernelcup.app.submissions.submissions import list_views
from kernelcup.cli.backend.choosing import open_backend
from kernelcup.cli.compete import tools
from kernelcup.domain import OPERATOR
from kernelcup.engine.database import Database

__all__ = ["ada", "command", "db_url", "home", "server"]

Ask = Callable[..., tuple[Any, bool]]


@pytest.fixture
def ask(ada: str, server: str) -> Ask:
    """Return what calls a tool as ada, and returns its answer and whether it is an error."""

    def call(name: str, **arguments: Any) -> tuple[Any, bool]:
        async def one() -> tuple[Any, bool]:
            with open_backend(server, False, None) as backend:
                async with Client(tools.server_of(backend)) as client:
                    done = await client.call_tool(name, arguments)
            (content,) = done.content
            return json.loads(content.text), done.is_error

        return anyio.run(one)

    return call


def test_each_tool_says_what_it_does_and_what_it_takes(ada: str, server: str) -> None:
    async def listed() -> dict[str, Any]:
        with open_backend(server, False, None) as backend:
            async with Client(tools.server_of(backend)) as client:
                found = await client.list_tools()
        return {each.name: each for each in found.tools}

    found = anyio.run(listed)
    of_operations = {each.tool for each in OPERATIONS.values() if each.tool}
    assert of_operations == {
        *(
            "leaderboards",
            "task",
            "check",
            "report",
            "submissions",
            "place",
            "budget",
            "compare",
            "comparison",
        )
    }
    assert found.keys() == {*of_operations, "submit", "wait"}
    assert all(each.description for each in found.values())
    assert found["task"].input_schema["required"] == ["leaderboard"]
    assert "key" in found["submit"].input_schema["required"]


def test_an_error_keeps_its_code_and_says_what_to_do(ask: Ask, db: Database) -> None:
    make_board(db, devices=["H100", "MI300"])
    refused, is_error = ask("check", code="x = 1", file_name="kernel.txt", devices=["H100"])
    assert (is_error, refused["error"]["code"]) == (True, "wrong_file_type")
    assert refused["error"]["next"] == ["give the file the ending that the message names"]
    told = [
        ("task", {"leaderboard": "other"}, "not_found"),
        ("submit", {"code": "x = 1", "key": "a"}, "device_needed"),
        ("submit", {"code": "x = 1"}, "invalid_request"),
        ("report", {"submission_id": 7}, "not_found"),
        ("report", {"submission_id": "seven"}, "invalid_request"),
        ("delete", {}, "not_found"),
    ]
    for name, arguments, code in told:
        refused, is_error = ask(name, **arguments)
        assert (is_error, refused["error"]["code"]) == (True, code), name


def test_a_check_stores_nothing_and_counts_nothing(ask: Ask, db: Database) -> None:
    make_board(db)
    add_limit(db, OPERATOR, text="1/hour", board="double", now=NOW)
    for _ in range(2):
        checked, is_error = ask(
            "check", code="# !POPCORN leaderboard x\ndef custom_kernel(:\n", leaderboard="double"
        )
        assert not is_error
    assert (checked["leaderboard"], checked["devices"]) == ("double", ["H100"])
    assert checked["warnings"][0].startswith("line 2: ")
    assert "!POPCORN" in checked["warnings"][1]
    assert list_views(db) == []
    ask("submit", leaderboard="double", code=SUBMISSION, key="a")
    refused, is_error = ask("check", leaderboard="double", code=SUBMISSION)
    assert (is_error, refused["error"]["code"]) == (True, "rate_limited")


def test_one_key_is_one_submission(ask: Ask, db: Database) -> None:
    make_board(db)
    sent = {"leaderboard": "double", "mode": "test", "key": "mine"}
    made = [ask("submit", **sent, code=SUBMISSION)[0]["id"] for _ in range(2)]
    assert made == [1, 1]
    refused, is_error = ask("submit", **sent, code=f"{SUBMISSION}# other\n")
    assert (is_error, refused["error"]["code"]) == (True, "idempotency_mismatch")
    several, _ = ask(
        "submit", **sent | {"key": "b"}, files={"submission.py": SUBMISSION, "more.py": "x = 1\n"}
    )
    assert several["id"] == 2


def test_a_wait_goes_on_behind_its_cursor(ask: Ask, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    make_board(db)
    ask("submit", leaderboard="double", code=SUBMISSION, key="a")
    waiting, _ = ask("wait", submission_id=1, seconds=0)
    assert (waiting["ended"], [each["kind"] for each in waiting["events"]]) == (False, ["accepted"])
    assert waiting["jobs"][0]["waiting"]["reason"]
    monkeypatch.setattr(tools.time, "sleep", lambda _: judge(db))
    done, _ = ask("wait", submission_id=1, after=waiting["next"], seconds=50)
    kinds = [each["kind"] for each in done["events"]]
    assert (done["ended"], kinds[0], kinds[-1]) == (True, "started", "done")
    assert done["jobs"][0]["verdict"] == "accepted"
    again, _ = ask("wait", submission_id=1, after=done["next"])
    assert (again["events"], again["next"]) == ([], done["next"])


def test_answers_are_bounded(ask: Ask, db: Database) -> None:
    make_board(db)
    ask("submit", leaderboard="double", code=SUBMISSION, key="a")
    judge(db, make_report(stages=[make_stage([make_case(index=index) for index in range(500)])]))
    for section in ("summary", "cases"):
        (part,), _ = ask("report", submission_id=1, section=section)
        assert len(part["text"]) < tools.MOST
    assert part["text"].endswith("more characters]")
    assert json.loads(tools.bounded({"a": ["x" * 9000] * 300, "b": 1}))["b"] == 1
    for large in ({"a": {str(each): "x" * 100 for each in range(5000)}}, ["é" * 30_000] * 9):
        assert len(tools.bounded(large)) <= tools.MOST + 2
        json.loads(tools.bounded(large))


def test_a_bug_is_told_and_ends_nothing(ask: Ask, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("kc_secret")

    monkeypatch.setattr(tools, "wait", broken)
    told, is_error = ask("wait", submission_id=1)
    assert (is_error, told["error"]["code"]) == (True, "bug")
    assert "kc_secret" not in json.dumps(told)


def test_without_the_sdk_one_sentence_says_how_to_get_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    ended = command("mcp", "--local")
    assert ended.code == 4
    assert "pip install '.[mcp]' in a copy of the project" in ended.err
