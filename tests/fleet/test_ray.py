"""Agents that Ray starts. What agents do by themselves is tried without Ray, in ``tests/http/test_agent.py``."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ray_cluster import KERNELCUP, ClusterNode, RayCluster

from builders import make_device
from kernelcup.agent.ray_node import parent_of
from kernelcup.app.machines import machines
from kernelcup.app.machines.machines import SILENT, MachineState, MachineView
from kernelcup.app.machines.ray_launcher import RayLauncher
from kernelcup.cli import exit_codes
from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError, LaunchLost, NoRoom
from kernelcup.launchers.base import Order
from kernelcup.launchers.ray_cluster import NAME, environment_label
from kernelcup_harness.protocol import Backend
from launcher_conformance import LauncherConformance, case_event, make_order, report_for
from machine_bench import MachineBench

KIND = "bench_node:BenchNode"


class RayBench:
    """The launcher on a real cluster, whose machines judge with a harness that tests drive."""

    def __init__(self, cluster: RayCluster, machine: MachineBench, db: Database) -> None:
        self.cluster, self.machine, self.db = cluster, machine, db
        self.orders: dict[str, Order] = {}
        self.launcher = self.restarted()

    def restarted(self, **options: Any) -> RayLauncher:
        """Return the launcher of a new dispatcher."""
        if hasattr(self, "launcher"):
            self.launcher.close()
        bench = self

        class Noted(RayLauncher):
            def start(self, order: Order, *, wake: Any) -> str:
                call = super().start(order, wake=wake)
                bench.orders[call] = order
                return call

        self.launcher = self.cluster.launcher(self.db, launcher=Noted, kind=KIND, **options)
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

    def node_of(self, call: str) -> ClusterNode:
        raylet = parent_of(parent_of(self.machine.pid(self.job(call))))
        return next(each for each in self.cluster.nodes.values() if each.pids().get("raylet") == raylet)

    def add(self, name: str, devices: dict[str, int]) -> None:
        """Have another node join, until the test ends."""
        extra = f"extra{len(self.cluster.nodes)}"
        self.cluster.devices = {**self.cluster.devices, extra: devices}
        self.cluster.start_node(extra, known_as=name)

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

    def machines(self) -> dict[str, MachineView]:
        """Return what operators read."""
        self.launcher.probe([])
        return {each.name: each for each in machines.list_machines(self.db, now=datetime.now(UTC))}

    def close(self) -> None:
        for call in self.orders:
            self.launcher.cancel(call)
        for file in self.machine.folder.glob("*.up"):
            with suppress(OSError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        self.restore()
        self.cluster.wait(self.restarted())
        assert RULES.soon(lambda: self.launcher.capacity(ONE) == 3)
        self.launcher.close()
        for file in self.machine.folder.iterdir():
            file.unlink()


@pytest.fixture
def bench(cluster: RayCluster, bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayBench]:
    with Database.open(cluster.database) as db:
        bench = RayBench(cluster, MachineBench(bench_folder, monkeypatch), db)
        cluster.wait(bench.launcher)
        yield bench
        bench.close()


RULES = LauncherConformance()
ONE = make_order().device
PAIR = make_device(name="H100x2", backend=Backend.EMULATED, slots=1)


def test_a_job_goes_to_a_node_and_its_events_and_its_report_come_back(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    assert bench.launcher.capacity(ONE) == 2
    bench.tell(call, case_event(1))
    assert RULES.events(bench.launcher, call, 1) == [case_event(1)]
    bench.report(call, report_for(order))
    RULES.accepted(bench.launcher, call, order)


def test_a_cancelled_job_ends_and_its_slot_is_free_again(bench: RayBench) -> None:
    call = RULES.begin(bench, make_order())
    bench.launcher.cancel(call)
    assert RULES.soon(lambda: not bench.machine.is_running("1.1"))
    assert RULES.soon(lambda: bench.launcher.capacity(ONE) == 3)


def test_a_job_that_takes_two_slots_gets_them_on_one_host_and_singles_get_the_rest(bench: RayBench) -> None:
    bench.add("pairs", {"H100": 2, "H100x2": 1})
    bench.cluster.wait(bench.launcher, "pairs")
    assert bench.launcher.capacity(PAIR) == 1
    pair = RULES.begin(bench, make_order(device=PAIR))
    assert bench.launcher.poll([pair])[pair].machine == "pairs"
    assert bench.launcher.capacity(PAIR) == 0
    assert bench.launcher.capacity(ONE) == 3


def test_labels_choose_the_machines_of_a_device(bench: RayBench) -> None:
    bench.restarted(labels={"H100": {NAME: "n3"}})
    assert bench.launcher.capacity(ONE) == 1
    call = RULES.begin(bench, make_order())
    assert bench.launcher.poll([call])[call].machine == "n3"


def test_a_task_that_names_an_environment_waits_for_a_machine_that_has_it(bench: RayBench) -> None:
    with pytest.raises(NoRoom):
        bench.launcher.start(make_order(environment="cutlass"), wake=lambda: None)
    bench.restarted(labels={"H100": {environment_label("cutlass"): "yes"}})
    assert bench.launcher.capacity(ONE) == 0


def test_a_second_node_of_one_name_is_told_apart(bench: RayBench) -> None:
    bench.add("n1", {"H100": 1})
    assert RULES.soon(lambda: any(name.startswith("n1-") for name in bench.machines()))
    assert bench.machines()["n1"].state is MachineState.UP


def test_what_a_lost_node_has_left_is_gone_before_the_next_job(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    machine = bench.launcher.poll([call])[call].machine
    agent = parent_of(bench.machine.pid("1.1"))
    os.kill(agent, signal.SIGSTOP)  # or it would end itself, and its harness, once it misses its node
    lost_at = time.monotonic()
    bench.node_of(call).kill("raylet")
    outcome = RULES.outcome(bench.launcher, call, order)
    assert isinstance(outcome, LaunchLost), outcome
    assert time.monotonic() - lost_at < SILENT.total_seconds()
    assert bench.machines()[machine].state is MachineState.DOWN
    bench.restore()
    bench.cluster.wait(bench.launcher)
    assert parent_of(agent) == 0
    assert not bench.machine.is_running("1.1")
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


def test_a_call_goes_on_while_what_places_agents_is_started_again(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    agents = {name: bench.cluster.nodes[name].agent() for name in ("n1", "n2", "n3")}
    assert bench.launcher._process is not None
    bench.launcher._process.kill()
    bench.add("later", {"H100": 1})
    bench.cluster.wait(bench.launcher, "later")
    assert {name: bench.cluster.nodes[name].agent() for name in agents} == agents
    bench.report(call, report_for(order))
    RULES.accepted(bench.launcher, call, order)


def test_a_call_goes_on_after_a_restart_of_the_dispatcher(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    bench.restarted()
    assert RULES.poll(bench.launcher, call).outcome is None
    bench.report(call, report_for(order))
    RULES.accepted(bench.launcher, call, order)


def test_an_agent_that_was_refused_is_replaced(bench: RayBench) -> None:
    machines.remove(bench.db, "n2", now=datetime.now(UTC))
    bench.cluster.wait(bench.launcher)


def test_an_agent_that_was_killed_is_replaced_and_its_job_is_lost(bench: RayBench) -> None:
    order = make_order()
    call = RULES.begin(bench, order)
    os.kill(parent_of(bench.machine.pid("1.1")), signal.SIGKILL)
    assert isinstance(RULES.outcome(bench.launcher, call, order), LaunchLost)
    bench.cluster.wait(bench.launcher)


def test_a_server_with_another_token_says_so_in_one_line(
    bench: RayBench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text("0" * 64)
    launcher = bench.cluster.launcher(bench.db)
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(tmp_path / "token")
    until = time.monotonic() + 120
    with caplog.at_level(logging.ERROR):
        while "does not answer: " not in caplog.text and time.monotonic() < until:
            launcher.capacity(ONE)
            time.sleep(0.2)
    launcher.close()
    (line,) = caplog.messages
    assert f"does not answer: {tmp_path / 'token'}: not the token of the cluster" in line
    assert "\n" not in line


def test_a_machine_with_another_token_is_told_so_in_one_line(bench: RayBench, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0" * 64)
    (tmp_path / "kernelcup.toml").write_text('[[devices]]\nname = "emulated"\nbackend = "emulated"\n')
    environ = {**os.environ, "KERNELCUP_HOME": str(tmp_path), "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    command = [str(KERNELCUP), "runner", "join", bench.cluster.address]
    refused = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert refused.returncode == exit_codes.of_error(ConfigError(""))
    (line,) = refused.stderr.strip().splitlines()
    assert f"{tmp_path / 'token'}: not the token of the cluster at {bench.cluster.address}" in line
