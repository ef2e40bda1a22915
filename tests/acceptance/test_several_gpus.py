"""A task on several GPUs: judged by the command, by a server and by the agent of another machine."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cup import Cup, read_until

from kernelcup import tasks
from kernelcup.cli.credentials import Credentials

pytestmark = pytest.mark.jobs

BOARD = "all_reduce"
EXAMPLE = Path(tasks.__file__).parent / "examples" / BOARD
TEMPLATE = "all_reduce/template.py"
ONE_OF_EACH = [
    (r"(?s)(tests:\n  - .*?\n)  - .*?\n", r"\1"),
    (r"(?s)(benchmarks:\n  - .*?\n)  - .*?\n", r"\1"),
]
"""Leave one test and one benchmark."""
AGENT_KEYS = """\
backend = "emulated"
launcher = "agent"
slots = 1
"""


@pytest.fixture
def task(cup: Cup) -> Path:
    """The example in the folder of the commands, with one test and one benchmark."""
    folder = cup.folder / BOARD
    shutil.copytree(EXAMPLE, folder)
    manifest = folder / "task.yml"
    text = manifest.read_text(encoding="utf-8")
    for pattern, left in ONE_OF_EACH:
        text, changed = re.subn(pattern, left, text)
        assert changed == 1
    manifest.write_text(text, encoding="utf-8")
    return folder


@contextmanager
def served(cup: Cup) -> Iterator[str]:
    """A server on the folder of the commands, where their user has signed in."""
    cup("admin", "user", "add", "robo")
    token = cup.json("admin", "token", "create", "robo")["secret"]
    with cup.started("serve", "--port", "0") as process:
        url = read_until(process.stdout, "listening on").split()[-1]
        Credentials.load({"HOME": str(cup.folder)}).put(url, token)
        yield url
        process.terminate()


def judged(cup: Cup, url: str, mode: str) -> dict[str, Any]:
    """Submit the template to a server; return the report."""
    done = cup("submit", TEMPLATE, "--board", BOARD, "--mode", mode, "--server", url, "--json")
    (job,) = json.loads(done.stdout)["jobs"]
    assert (job["state"], job["verdict"]) == ("done", "accepted")
    return dict(job["report"])


def test_a_shipped_task_runs_on_two_gpu_ranks(cup: Cup) -> None:
    shutil.copy(EXAMPLE / "template.py", cup.folder / "mine.py")
    report = cup.json("run", BOARD, "mine.py")["report"]
    assert report["verdict"] == "accepted"
    assert report["environment"]["ranks"] == {"count": 2, "communication": "gloo (nccl is answered by it)"}
    cases = report["stages"][-1]["cases"]
    assert [each["parameters"]["world_size"] for each in cases] == [2, 2]


def test_a_task_runs_on_four_gpu_ranks_and_names_the_one_that_is_wrong(cup: Cup, task: Path) -> None:
    manifest = task / "task.yml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("world_size: 2", "world_size: 4"))
    report = cup.json("run", BOARD, TEMPLATE)["report"]
    assert (report["verdict"], report["environment"]["ranks"]["count"]) == ("accepted", 4)
    right = (task / "template.py").read_text(encoding="utf-8")
    cup.write("wrong.py", right.replace("return total", "return total + (dist.get_rank() == 3)"))
    (case,) = cup.json("run", BOARD, "wrong.py", code=10)["report"]["stages"][-1]["cases"]
    assert case["message"].startswith("GPU rank 3: ")


def test_a_server_judges_a_task_on_several_gpus_and_shows_its_cases(cup: Cup, task: Path) -> None:
    board = cup.json("board", "create", BOARD, "--device", "emulated")
    assert (board["devices"], board["harness"]) == (["emulated"], "standard")
    with served(cup) as url:
        assert judged(cup, url, "test")["environment"]["ranks"]["count"] == 2
        ranked = judged(cup, url, "ranked")
        (case,) = ranked["stages"][-1]["cases"]
        assert (case["parameters"]["world_size"], case["timing"]["audit"]["level"]) == (2, "wall clock")
        (times,) = ranked["environment"]["ranks"]["cases"]
        assert (times["stage"], times["case"], len(times["rank_us"])) == ("ranked", 0, 2)
        shown = cup("submissions", "show", "2", "--server", url).stdout
        assert "world_size=2" in shown
        assert "GPU ranks" in shown
        with httpx.Client(base_url=url, timeout=30) as client:
            assert "world_size" in client.get(f"/b/{BOARD}/statement").text
        standings = json.loads(cup("standings", BOARD, "--server", url, "--json").stdout)
    (place,) = standings["standings"]["emulated"]
    assert (place["rank"], place["user"]) == (1, "robo")


def test_an_agent_judges_a_task_on_several_gpus(cup: Cup, task: Path) -> None:
    config = cup.folder / "kernelcup.toml"
    machine = Cup(folder=cup.folder / "machine")
    machine.folder.mkdir()
    (machine.folder / "kernelcup.toml").write_text(config.read_text(encoding="utf-8"))
    config.write_text(config.read_text(encoding="utf-8").replace('backend = "emulated"\n', AGENT_KEYS))
    cup("board", "create", BOARD, "--device", "emulated", "--no-run")
    token = cup("admin", "machines", "add", "lab", "--own").stdout.split()[-1]
    with served(cup) as url, machine.started("runner", "agent", url, "--token", token) as agent:
        read_until(agent.stdout, "judging for")
        assert judged(cup, url, "test")["environment"]["ranks"]["count"] == 2
        agent.terminate()
