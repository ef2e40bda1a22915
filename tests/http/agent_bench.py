"""An agent on loopback: the real service, the real agent, and a machine whose harness tests drive."""

from __future__ import annotations

import time
from typing import Any

import httpx
from starlette.testclient import TestClient

from kernelcup.agent.agent import Agent
from kernelcup.agent.connection import Connection
from kernelcup.agent.harnesses import Harnesses
from kernelcup.app.machines import machines
from kernelcup.app.machines.agent_launcher import AgentLauncher
from kernelcup.app.machines.machines import SILENT
from kernelcup.client.transport import Client
from kernelcup.domain import Device
from kernelcup.http.state import Platform
from kernelcup.launchers.base import limit_s
from machine_bench import MachineBench


class Loopback(httpx.BaseTransport):
    """Carries requests into the application, unless the line is cut."""

    def __init__(self, application: TestClient) -> None:
        self._application = application
        self.cut = False
        self.refused = 0
        self.loses_answers = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        if self.cut:
            self.refused += 1
            raise httpx.ConnectError("the line is cut", request=request)
        answer = self._application.request(
            request.method,
            str(request.url.raw_path, "ascii"),
            content=request.read(),
            headers=dict(request.headers),
        )
        if self.loses_answers:
            raise httpx.ReadError("the answer was lost", request=request)
        return httpx.Response(
            answer.status_code,
            content=answer.content,
            headers={"content-type": answer.headers.get("content-type", "")},
        )


class AgentBench:
    """A service with one machine, whose agent works whenever the launcher is asked."""

    joins = True
    live = True

    def __init__(
        self, platform: Platform, application: TestClient, machine: MachineBench, device: Device
    ) -> None:
        self.platform, self.machine, self.device = platform, machine, device
        self.token = machines.add_agent(platform.db, "lab", now=platform.clock()).token
        self.line = Loopback(application)
        self.agents: list[Agent] = []
        self.agent = self.new_agent()
        self.is_off = False
        self.jobs: dict[str, str] = {}
        self.use_harness = machine.use_harness
        self.launcher = self.restarted()

    def new_agent(self, token: str | None = None) -> Agent:
        """Return an agent that has connected."""
        connection = Connection(Client("http://127.0.0.1:8000", token or self.token, transport=self.line))
        harnesses = Harnesses(self.machine.folder / "harness", self.machine.make, connection.fetch_harness)
        agent = Agent(connection, harnesses, {self.device.name: self.device}, facts={"gpus": []})
        self.agents.append(agent)
        connection.hello(slots={self.device.name: self.device.slots}, facts={"gpus": []})
        return agent

    def step(self) -> None:
        """Let the agent work once, unless its machine is off."""
        if not self.is_off:
            self.agent.look()
            self.exchange()

    def exchange(self) -> None:
        """Let the agent send what there is, and ask once."""
        self.agent.send()
        self.agent.obey(self.agent.ask())

    def restarted(self) -> AgentLauncher:
        """Return a launcher that lets the agent work before each answer."""
        bench = self

        class Driven(AgentLauncher):
            def start(self, order, *, wake):
                call = super().start(order, wake=wake)
                bench.jobs[call] = order.spec.job_id
                return call

            def poll(self, calls_):
                bench.step()
                return super().poll(calls_)

            def capacity(self, device):
                bench.step()
                return super().capacity(device)

        if self.jobs:
            self.launcher.close()
        self.launcher = Driven(self.platform.db, clock=self.platform.clock)
        return self.launcher

    def begun(self, call: str) -> None:
        """Let the agent fetch a call."""
        while not self.machine.is_up(self.jobs[call]):
            self.step()
            time.sleep(0.005)

    def tell(self, call: str, event: dict[str, Any]) -> None:
        """Have the harness report an event."""
        self.machine.tell(self.jobs[call], event)

    def report(self, call: str, report: Any) -> None:
        """Have the harness report."""
        self.machine.report(self.jobs[call], report)

    def report_too_much(self, call: str) -> None:
        """Have the harness report more than the service takes."""
        self.machine.monkeypatch.setattr("kernelcup.http.api.agents.LARGEST_REPORT_BYTES", 2000)
        self.report(call, {"message": "x" * 5000})

    def lose(self, call: str) -> None:
        """Switch the machine off."""
        self.is_off = True
        self.platform.clock.advance(SILENT.total_seconds() + 1)

    def come_back(self, call: str, report: Any) -> None:
        """Switch the machine on again; its harness went on."""
        self.is_off = False
        self.report(call, report)
        for _ in range(5):
            self.step()
            time.sleep(0.02)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, while the agent asks as often as it does."""
        self.machine.ahead_s += seconds
        while seconds > 0:
            self.platform.clock.advance(min(seconds, 30))
            seconds -= 30
            self.step()

    def set_clock_off(self, seconds: float) -> None:
        """An agent sends no times of the day, and the service looks at its own clock only."""

    def is_running(self, call: str) -> bool:
        """Return whether the harness lives."""
        self.step()
        return self.machine.is_running(self.jobs[call])

    def engine_limit_s(self, spec: Any) -> float:
        """Return the limit of the machine's own launcher."""
        return limit_s(spec)

    def join(self, name: str) -> str:
        """Register another machine."""
        machines.add_agent(self.platform.db, name, now=self.platform.clock())
        return name

    def close(self) -> None:
        """End what runs."""
        self.line.cut = True
        self.launcher.close()
        self.platform.asking.close()
        for agent in self.agents:
            agent._end()
