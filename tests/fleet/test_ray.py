from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench_pool import AHEAD, LARGEST, OTHER_HARNESS
from ray_cluster import ClusterNode, RayCluster, readings

from builders import make_device
from kernelcup.agent.ray_pool import parent_of
from kernelcup.errors import LaunchError, LaunchLost, NoRoom
from kernelcup.launchers.base import Order, limit_s
from kernelcup.launchers.ray.launcher import RayLauncher
from kernelcup.launchers.ray.names import NAME
from kernelcup_harness.protocol import Backend
from launcher_conformance import LauncherConformance, make_order, report_for
from machine_bench import MachineBench

BENCH_POOL = "bench_pool:BenchPool"


class RayBench:
    """The launcher on a real cluster, whose machines judge with a harness that tests drive."""

    joins = True
    live = True

    def __init__(self, cluster: RayCluster, machine: MachineBench) -> None:
        self.cluster, self.machine = cluster, machine
        self.orders: dict[str, Order] = {}
        self.launcher = self.restarted()

    def restarted(self) -> RayLauncher:
        if self.orders:
            self.launcher.close()
        bench = self

        class Noted(RayLauncher):
            def start(self, order: Order, *, wake: Any) -> str:
                call = super().start(order, wake=wake)
                bench.orders[call] = order
                return call

        self.launcher = self.cluster.launcher(kind=Noted, pool=BENCH_POOL)
        self.cluster.wait(self.launcher)
        return self.launcher

    def job(self, call: str) -> str:
        return self.orders[call].spec.job_id

    def begun(self, call: str) -> None:
        until = time.monotonic() + 30
        while not self.machine.is_up(self.job(call)):
            assert time.monotonic() < until, self.launcher.poll([call])
            time.sleep(0.005)

    def tell(self, call: str, event: dict[str, Any]) -> None:
        self.machine.tell(self.job(call), event)

    def report(self, call: str, report: Any) -> None:
        self.machine.report(self.job(call), report)

    def use_harness(self, harness: str) -> None:
        (self.machine.folder / OTHER_HARNESS).write_text(harness)

    def report_too_much(self, call: str) -> None:
        (self.machine.folder / LARGEST).write_text("2000")
        self.report(call, report_for(self.orders[call], message="x" * 5000))

    def node_of(self, call: str) -> ClusterNode:
        raylet = parent_of(parent_of(self.machine.pid(self.job(call))))
        return next(each for each in self.cluster.nodes.values() if each.pids().get("raylet") == raylet)

    def lose(self, call: str) -> None:
        self.node_of(call).kill("raylet")

    def come_back(self, call: str, report: Any) -> None:
        self.restore()
        self.report(call, report)
        time.sleep(0.2)

    def pass_time(self, seconds: float) -> None:
        self.machine.ahead_s += seconds
        (self.machine.folder / AHEAD).write_text(str(self.machine.ahead_s))

    def set_clock_off(self, seconds: float) -> None:
        """The nodes send no times of the day."""

    def is_running(self, call: str) -> bool:
        return self.machine.is_running(self.job(call))

    def engine_limit_s(self, spec: Any) -> float:
        return limit_s(spec)

    def add(self, name: str, devices: dict[str, int]) -> None:
        """Have another node join, until the test ends."""
        extra = f"extra{len(self.cluster.nodes)}"
        self.cluster.devices = {**self.cluster.devices, extra: devices}
        self.cluster.start_node(extra, known_as=name)

    def join(self, name: str) -> str:
        before = {each.name for each in readings(self.launcher)}
        self.add(name, {"H100": 1})
        until = time.monotonic() + 60
        while not (new := {each.name for each in readings(self.launcher)} - before):
            assert time.monotonic() < until
            time.sleep(0.1)
        return max(new)

    def restore(self) -> None:
        """Start lost nodes again, and end those that joined."""
        for name, node in list(self.cluster.nodes.items()):
            if name.startswith("extra"):
                node.kill("raylet")
                node.process.wait()
                del self.cluster.nodes[name]
                self.cluster.devices = {
                    key: some for key, some in self.cluster.devices.items() if key != name
                }
            elif node.process.poll() is not None or "raylet" not in node.pids():
                self.cluster.start_node(name)

    def close(self) -> None:
        for call in self.orders:
            with suppress(Exception):
                self.launcher.cancel(call)
        for file in self.machine.folder.glob("*.up"):
            with suppress(OSError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        self.restore()
        self.cluster.wait(self.launcher)
        self.launcher.close()
        for file in self.machine.folder.iterdir():
            file.unlink()


@pytest.fixture
def bench(cluster: RayCluster, bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayBench]:
    bench = RayBench(cluster, MachineBench(bench_folder, monkeypatch))
    yield bench
    bench.close()


class TestRay(LauncherConformance):
    """Ray obeys the rules of all launchers."""


RULES = LauncherConformance()
PAIR = make_device(name="H100x2", backend=Backend.EMULATED, slots=1)


def test_a_job_that_takes_two_slots_gets_them_on_one_host_and_singles_get_the_rest(bench: RayBench) -> None:
    bench.add("pairs", {"H100": 2, "H100x2": 1})
    bench.cluster.wait(bench.launcher, "pairs")
    assert bench.launcher.capacity(PAIR) == 1
    pair = RULES.begin(bench, make_order(device=PAIR))
    assert bench.launcher.poll([pair])[pair].machine == "pairs"
    assert bench.launcher.capacity(PAIR) == 0
    assert bench.launcher.capacity(make_order().device) == 3
    single = bench.launcher.start(make_order(job_id="2.1"), wake=lambda: None)
    bench.begun(single)
    assert bench.launcher.poll([single])[single].machine in {"n1", "n2", "n3"}


def test_a_job_goes_to_the_machines_that_may_judge_it_only(bench: RayBench) -> None:
    order = dataclasses.replace(make_order(), machines=frozenset({"n2"}))
    call = RULES.begin(bench, order)
    assert bench.launcher.poll([call])[call].machine == "n2"
    other = dataclasses.replace(order, spec=dataclasses.replace(order.spec, job_id="2.1"))
    with pytest.raises(NoRoom):
        bench.launcher.start(other, wake=lambda: None)


def test_labels_choose_the_machines_of_a_device(bench: RayBench) -> None:
    bench.launcher.close()
    bench.launcher = bench.cluster.launcher(labels={"H100": {NAME: "n3"}}, pool=BENCH_POOL)
    bench.cluster.wait(bench.launcher)
    assert bench.launcher.capacity(make_order().device) == 1


def test_a_task_that_names_an_environment_waits_for_a_machine_that_has_it(bench: RayBench) -> None:
    with pytest.raises(NoRoom):
        bench.launcher.start(make_order(environment="cutlass"), wake=lambda: None)


def test_what_a_lost_node_has_left_is_gone_before_the_next_job(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    machine = bench.launcher.poll([call])[call].machine
    pool = parent_of(bench.machine.pid("1.1"))
    os.kill(pool, signal.SIGSTOP)  # or it would end itself, and its harness, once it misses its node
    bench.lose(call)
    outcome = RULES.outcome(bench.launcher, call, order)
    assert isinstance(outcome, LaunchLost), outcome
    bench.restore()
    bench.cluster.wait(bench.launcher)
    assert parent_of(pool) == 0
    assert not bench.is_running(call)
    again = dataclasses.replace(make_order(job_id="1.2"), machines=frozenset({machine}))
    second = RULES.begin(bench, again)  # the slot is free
    bench.report(second, report_for(again))
    RULES.accepted(bench.launcher, second, again)


def test_calls_are_lost_with_the_head_and_the_next_ones_run(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    bench.cluster.nodes["head"].kill("gcs_server", "raylet")
    for node in bench.cluster.nodes.values():
        node.process.wait(60)
    bench.restore()
    bench.cluster.wait(bench.launcher)
    assert isinstance(RULES.outcome(bench.launcher, call, order), LaunchLost)
    again = make_order(job_id="1.2")
    second = RULES.begin(bench, again)
    bench.report(second, report_for(again))
    RULES.accepted(bench.launcher, second, again)


def test_a_bridge_that_is_killed_is_started_again_and_the_call_goes_on(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    bench.tell(call, {"event": "before"})
    assert RULES.events(bench.launcher, call, 1) == [{"event": "before"}]
    bench.launcher._line._process.kill()
    bench.launcher._line._process.wait()
    bench.cluster.wait(bench.launcher)
    bench.tell(call, {"event": "after"})
    assert RULES.events(bench.launcher, call, 1) == [{"event": "after"}]
    bench.report(call, report_for(order))
    RULES.accepted(bench.launcher, call, order)


def test_a_client_without_the_token_learns_why_it_is_refused(bench: RayBench, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0" * 64)
    launcher = bench.cluster.launcher()
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(tmp_path / "token")
    until = time.monotonic() + 60
    said = ""
    try:
        while "does not answer: " not in said and time.monotonic() < until:
            with pytest.raises(LaunchError) as refused:
                launcher.capacity(PAIR)
            said = str(refused.value)
            time.sleep(0.2)
    finally:
        launcher.close()
    assert "does not answer: " in said
    assert "oken" in said or "Failed to connect" in said
