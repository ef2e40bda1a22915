"""The pool of a Ray node, asked without Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kernelcup.agent import ray_pool
from kernelcup.agent.ray_pool import RayPool, take_place
from kernelcup.domain import Device
from kernelcup.errors import BadReport, ConfigError, LaunchError
from kernelcup.launchers import outcomes
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.bundle import harness_hash, write_bundle
from kernelcup.launchers.ray import names, start
from kernelcup.launchers.ray.launcher import make
from kernelcup_harness.protocol import Backend, to_json
from launcher_conformance import make_order, report_for
from machine_bench import MachineBench

WAIT_S = 30.0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MachineBench:
    home = tmp_path / "home"
    home.mkdir()
    (home / "kernelcup.toml").write_text('[[devices]]\nname = "H100"\nbackend = "emulated"\nslots = 2\n')
    monkeypatch.setenv("KERNELCUP_HOME", str(home))
    monkeypatch.setenv("KERNELCUP_RUNTIME", str(tmp_path / "place"))
    return MachineBench(tmp_path, monkeypatch)


@pytest.fixture
def pool(machine: MachineBench) -> Iterator[RayPool]:
    class Pool(RayPool):
        def make(self, settings: Any, package: Path) -> Any:
            return machine.make(package)

    found = Pool()
    yield found
    for call in list(found._calls):
        while not found.end(call, WAIT_S):
            pass
    found._place.close()


def begin(pool: RayPool, call: str = "call-1", **overrides: Any) -> None:
    order = make_order()
    body = {"spec": to_json(order.spec), "device": "H100", "harness": order.harness_hash, **overrides}
    text = json.dumps(body).encode()
    for offset in range(0, len(text), 100):
        pool.feed(call, offset, text[offset : offset + 100])
    pool.begin(call)


def outcome(pool: RayPool, call: str = "call-1") -> LaunchResult | Exception:
    while "size" not in (news := pool.news({call: 0}, WAIT_S).get(call, {})):
        assert "unknown" not in news
    text = b""
    while len(text) < news["size"]:
        piece = pool.outcome(call, len(text))
        assert 0 < len(piece) <= ray_pool.PIECE_BYTES
        text += piece
    return outcomes.decode(json.loads(text), machine="n1")


def test_a_report_comes_in_pieces_that_are_small(
    pool: RayPool, machine: MachineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "PIECE_BYTES", 1000)
    begin(pool)
    while not machine.is_up("1.1"):
        pass
    long = "x" * 5000
    machine.report("1.1", report_for(make_order(), message=long))
    found = outcome(pool)
    assert isinstance(found, LaunchResult), found
    assert found.report.message == long


def test_a_report_above_the_limit_is_refused(
    pool: RayPool, machine: MachineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "LARGEST_REPORT_BYTES", 1000)
    begin(pool)
    while not machine.is_up("1.1"):
        pass
    machine.report("1.1", report_for(make_order(), message="x" * 2000))
    found = outcome(pool)
    assert isinstance(found, BadReport)
    assert "too large" in str(found)


def test_a_device_that_is_not_there_is_a_failed_launch(pool: RayPool) -> None:
    begin(pool, device="B200")
    assert str(outcome(pool)) == "this machine has no B200"


def test_an_order_that_cannot_be_read_is_a_failed_launch(pool: RayPool) -> None:
    pool.feed("call-1", 0, b"{")
    pool.begin("call-1")
    assert isinstance(outcome(pool), LaunchError)


def test_a_harness_that_is_not_here_has_to_be_fed(pool: RayPool, machine: MachineBench) -> None:
    old = machine.folder / "old" / "kernelcup_harness"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text("# yesterday's\n")
    wanted = harness_hash(old)
    assert not pool.has_harness(wanted)
    write_bundle(machine.folder / "old.zip", old)
    pool.feed("call-1.zip", 0, (machine.folder / "old.zip").read_bytes())
    begin(pool, harness=wanted)
    assert pool.has_harness(wanted)


def test_a_call_that_begins_twice_runs_once(pool: RayPool, machine: MachineBench) -> None:
    begin(pool)
    begin(pool)
    while not machine.is_up("1.1"):
        pass
    assert list(pool._calls) == ["call-1"]


def test_an_ended_call_is_unknown_and_nothing_of_it_is_left(pool: RayPool, machine: MachineBench) -> None:
    begin(pool)
    while not machine.is_up("1.1"):
        pass
    while not pool.end("call-1", WAIT_S):
        pass
    assert not machine.is_running("1.1")
    assert pool.seen("call-1") is None
    assert pool.news({"call-1": 0}, 0) == {"call-1": {"unknown": True}}


def test_a_call_that_no_dispatcher_asks_about_is_unwanted(
    pool: RayPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(pool)
    assert pool.unwanted() == []
    monkeypatch.setattr(ray_pool, "FORGOTTEN_S", -1.0)
    assert pool.unwanted() == ["call-1"]


HOLDER = """
import os, sys, time
from pathlib import Path
from kernelcup.agent.ray_pool import take_place
if os.fork():
    sys.stdin.read()
    os._exit(0)
place = take_place(Path(sys.argv[1]))
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("is_lost", [True, False])
def test_the_pool_of_a_lost_node_is_killed_and_that_of_a_living_one_is_not(
    tmp_path: Path, is_lost: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        pool = int(node.stdout.readline())
        try:
            if is_lost:
                node.stdin.close()
                node.wait()
                take_place(tmp_path).close()
                assert ray_pool.parent_of(pool) == 0 or is_zombie(pool)
                return
            with pytest.raises(ConfigError, match="another Ray node on this machine"):
                take_place(tmp_path)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pool, signal.SIGKILL)


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def device(name: str, slots: int) -> Device:
    return Device(name=name, backend=Backend.CUDA, slots=slots)


def test_a_device_and_its_groups_are_units_of_one_resource() -> None:
    gpus = {"H200": ("0", "1", "2", "3"), "H200x2": ("0,1", "2,3")}
    assert names.resources([device("H200", 4), device("H200x2", 2)], gpus) == {"kernelcup-H200": 4}
    assert names.bundles(device("H200x2", 2)) == [{"kernelcup-H200": 1}] * 2


def test_slots_that_share_gpus_are_one_unit_for_each_gpu() -> None:
    assert names.resources([device("H100", 4)], {"H100": ("0", "1", "0", "1")}) == {"kernelcup-H100": 2}


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 64, "-a"])
def test_a_name_that_is_no_label_is_refused_before_ray_starts(name: str) -> None:
    with pytest.raises(ConfigError, match=r"kernelcup\.io/name=.*at most 63 letters"):
        start.command([], {}, where=[], name=name)


def test_a_machine_without_the_token_is_told_where_to_get_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match="copy the file from the machine where `kernelcup runner up` runs"):
        start.check_token(environ, make=False)
    start.check_token(environ, make=True)
    file = tmp_path / ".ray" / "auth_token"
    made = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    start.check_token(environ, make=True)
    start.check_token(environ, make=False)
    assert file.read_text() == made


def test_a_cluster_always_has_a_token() -> None:
    assert start.environment({"RAY_AUTH_MODE": "disabled"})["RAY_AUTH_MODE"] == "token"


@pytest.mark.parametrize("options", [{"adress": "x"}, {"address": 1}, {"labels": {"H100": {"a": 1}}}])
def test_options_that_are_not_known_are_refused(options: dict[str, Any]) -> None:
    from types import SimpleNamespace

    with pytest.raises(ConfigError, match=r"\[launchers\.ray\]: expected address"):
        make(SimpleNamespace(launcher_options={"ray": options}))  # type: ignore[arg-type]
