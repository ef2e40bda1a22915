"""A Ray node, and what starts it, without Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import make_device
from kernelcup import __version__
from kernelcup.agent import ray_node
from kernelcup.agent.ray_node import RayNode, take_place
from kernelcup.app.machines.ray_launcher import make
from kernelcup.errors import ConfigError, SignInNeeded
from kernelcup.launchers import ray_cluster

WAIT_S = 30.0


class Refused(RayNode):
    """A node whose agent is refused at once."""

    def make(self, settings: Any, client: Any) -> Any:
        def run(stop: Any) -> None:
            raise SignInNeeded("the token is void")

        return SimpleNamespace(run=run)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayNode]:
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path))
    monkeypatch.setenv("KERNELCUP_RUNTIME", str(tmp_path / "place"))
    node = Refused("http://127.0.0.1:1", "kc_token", __version__)
    yield node
    node._place.close()


def test_a_node_tells_why_its_agent_has_ended(node: RayNode) -> None:
    assert node.watch(__version__, WAIT_S) == "the token is void"


def test_a_node_does_not_go_on_for_a_server_of_another_version(node: RayNode) -> None:
    assert node.watch("99", WAIT_S) == "the server has KernelCup 99 now"
    with pytest.raises(ConfigError, match=f"it has KernelCup {__version__}, and the server 99"):
        RayNode("http://127.0.0.1:1", "kc_token", "99")


HOLDER = """
import os, sys, time
from pathlib import Path
from kernelcup.agent.ray_node import take_place
if os.fork():
    sys.stdin.read()
    os._exit(0)
place = take_place(Path(sys.argv[1]))
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_the_agent_of_a_lost_node_is_killed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        agent = int(node.stdout.readline())
        try:
            with pytest.raises(ConfigError, match="another Ray node on this machine"):
                take_place(tmp_path)
            node.stdin.close()
            node.wait()
            take_place(tmp_path).close()
            assert ray_node.parent_of(agent) == 0
        finally:
            with suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)


def test_only_nodes_that_judge_offer_a_place_for_an_agent() -> None:
    assert '--resources={"kernelcup": 1}' in ray_cluster.command([make_device()], {}, where=[])
    assert "--resources={}" in ray_cluster.command([], {}, where=[])


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 64, "-a"])
def test_a_name_that_is_no_label_is_refused_before_ray_starts(name: str) -> None:
    with pytest.raises(ConfigError, match=r"kernelcup\.io/name=.*at most 63 letters"):
        ray_cluster.command([], {}, where=[], name=name)


def test_a_machine_without_the_token_is_told_where_to_get_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match="copy the file from the machine where `kernelcup runner up` runs"):
        ray_cluster.check_token(environ, make=False)
    ray_cluster.check_token(environ, make=True)
    file = tmp_path / ".ray" / "auth_token"
    made = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    ray_cluster.check_token(environ, make=True)
    ray_cluster.check_token(environ, make=False)
    assert file.read_text() == made


def test_a_cluster_always_has_a_token() -> None:
    assert ray_cluster.environment({"RAY_AUTH_MODE": "disabled"})["RAY_AUTH_MODE"] == "token"


@pytest.mark.parametrize(
    "options", [{"adress": "x"}, {"address": 1}, {"server": 1}, {"labels": {"H100": {"a": 1}}}]
)
def test_options_that_are_not_known_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"\[launchers\.ray\]: expected address"):
        make(SimpleNamespace(launcher_options={"ray": options}, service_url="http://127.0.0.1:8000"))  # type: ignore[arg-type]
