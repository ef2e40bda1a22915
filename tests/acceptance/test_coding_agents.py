"""What a coding agent does that has nothing but our own words: each call as a file or a page of ours names it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from cup import COMMAND, Cup, interruptible, read_until, run_a_copy
from mcp import Client, StdioServerParameters

from kernelcup.cli.credentials import Credentials

pytestmark = pytest.mark.jobs

MOST_CALLS = 12
BOARD = "identity"


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server that judges, and the token of an agent."""

    url: str
    token: str


@pytest.fixture
def served(cup: Cup) -> Iterator[Served]:
    """A server with a leaderboard on the emulated device."""
    cup("board", "create", BOARD)
    cup("admin", "user", "add", "robo")
    token = cup.json("admin", "token", "create", "robo")["secret"]
    with cup.started("serve", "--port", "0") as process:
        listening = read_until(process.stdout, "listening on")
        yield Served(url=listening.split()[-1], token=token)
        process.terminate()


@pytest.fixture
def environ(served: Served, cup: Cup, tmp_path: Path) -> dict[str, str]:
    """What the processes of an agent see that has signed in to the server."""
    home = tmp_path / "agent"
    home.mkdir()
    Credentials.load({"HOME": str(home)}).put(served.url, served.token)
    kept = {name: text for name, text in cup.environ.items() if not name.startswith("KERNELCUP_")}
    return kept | {"HOME": str(home), "KERNELCUP_RUNTIME": cup.environ["KERNELCUP_RUNTIME"]}


def test_the_commands_of_a_started_folder_lead_to_a_place(environ: dict[str, str]) -> None:
    home = Path(environ["HOME"])
    begun = run_a_copy(["start", BOARD], home, environ)
    assert begun.returncode == 0, begun.stderr

    folder = home / BOARD
    text = (folder / "AGENTS.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    commands = [line for line in lines if line]
    assert ["kernelcup", "run", "task", "submission.py"] in commands
    assert len(commands) + 2 <= MOST_CALLS  # the sign-in and the start come before
    for command in commands:
        done = run_a_copy(command[1:], folder, environ)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    assert "robo" in done.stdout
    skill = (folder / "SKILL.md").read_text(encoding="utf-8")
    assert skill.startswith("---\nname: kernelcup-identity\ndescription: ")
    assert "Usage: kernelcup submit [OPTIONS] FILE" in skill
    assert json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["leaderboard"] == BOARD


def test_the_calls_of_llms_txt_lead_to_a_place(served: Served) -> None:
    calls = 0
    headers = {"Authorization": f"Bearer {served.token}"}
    with httpx.Client(base_url=served.url, headers=headers, timeout=120) as client:

        def send(method: str, path: str, **given: object) -> httpx.Response:
            nonlocal calls
            calls += 1
            answer = client.request(method, path, **given)
            assert answer.is_success, f"{method} {path}: {answer.text}"
            return answer

        page = send("GET", "/llms.txt").text
        (address,) = re.findall(rf"\[{BOARD}\]\((\S+)\)", page)
        told = send("GET", address).json()
        way = re.findall(r"^ +(GET|POST) (/\S+)(?:\n +(\{.+\}))?$", page, re.MULTILINE)
        values = {"NAME": BOARD, "DEVICE": told["devices"][0]["device"]}
        answers = []
        for method, path, body in way:
            for name, value in values.items():
                path, body = re.sub(rf"\b{name}\b", value, path), re.sub(rf"\b{name}\b", value, body)
            if not body:
                answers.append(send(method, path))
                continue
            sent = json.loads(body) | {"code": told["templates"]["Python"]}
            answers.append(send(method, path, json=sent, headers={"Idempotency-Key": f"key {calls}"}))
            values["ID"] = str(answers[-1].json()["id"])
    reports = [each.json() for (_, path, _), each in zip(way, answers, strict=True) if "/report" in path]
    assert [each[0]["text"].partition(" (")[0] for each in reports] == ["accepted", "accepted"]
    place = answers[-1].json()
    assert (place["user"], place["rank"], place["submission"]) == ("robo", 1, int(values["ID"]))
    assert [each["http"] for each in told["steps"]] == [
        re.sub("NAME", BOARD, re.sub("DEVICE", "emulated", f"{method} {path}")) for method, path, _ in way
    ]
    assert calls == len(way) + 2 <= MOST_CALLS


def test_the_tools_lead_to_a_place_and_submit_once_for_each_key(environ: dict[str, str]) -> None:
    async def compete() -> None:
        process = StdioServerParameters(command=COMMAND, args=["mcp"], env=environ)
        async with Client(process) as client:

            async def call(name: str, **arguments: object) -> Any:
                done = await client.call_tool(name, arguments)
                (content,) = done.content
                assert not done.is_error, content.text
                return json.loads(content.text)

            (board,) = await call("leaderboards")
            task = await call("task", leaderboard=board["name"])
            sent = {"leaderboard": board["name"], "code": task["templates"]["Python"]}
            checked = await call("check", **sent)
            assert checked == {
                "leaderboard": BOARD,
                "devices": ["emulated"],
                "practice": False,
                "warnings": [],
            }
            made = await call("submit", **sent, key="once")
            again = await call("submit", **sent, key="once")
            assert again["id"] == made["id"] == 1
            assert len(await call("submissions", user="me")) == 1
            kinds, waited = [], {"next": 0, "ended": False}
            while not waited["ended"]:
                waited = await call("wait", submission_id=1, after=waited["next"])
                kinds += [each["kind"] for each in waited["events"]]
            assert (kinds[0], kinds[-1], kinds.count("finished")) == ("accepted", "done", 1)
            report = await call("report", submission_id=1, section="summary")
            assert report[0]["text"].startswith("accepted")
            place = await call("place", leaderboard=BOARD, device="emulated")
            assert (place["user"], place["rank"], place["submission"]) == ("robo", 1, 1)

    with interruptible():
        anyio.run(compete)
