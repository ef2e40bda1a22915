from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kernelcup.launchers.base import limit_s
from launcher_conformance import LauncherConformance
from machine_bench import MachineBench


class LocalBench:
    """This machine's launcher."""

    joins = False
    live = True

    def __init__(self, machine: MachineBench) -> None:
        self.machine = machine
        self.launcher = machine.make()
        self.use_harness = machine.use_harness
        self._jobs: dict[str, str] = {}
        start = self.launcher.start

        def noted(order, *, wake):
            call = start(order, wake=wake)
            self._jobs[call] = order.spec.job_id
            return call

        self.launcher.start = noted

    def restarted(self):
        for call in self._jobs:
            self.launcher.cancel(call)  # what the end of the process does
        return self.machine.make()

    def begun(self, call: str) -> None:
        while not self.machine.is_up(self._jobs[call]):
            time.sleep(0.005)

    def tell(self, call: str, event: dict[str, Any]) -> None:
        self.machine.tell(self._jobs[call], event)

    def report(self, call: str, report: Any) -> None:
        self.machine.report(self._jobs[call], report)

    come_back = report

    def report_too_much(self, call: str) -> None:
        self.machine.report_too_much(self._jobs[call])

    def lose(self, call: str) -> None:
        self.machine.kill(self._jobs[call])

    def pass_time(self, seconds: float) -> None:
        self.machine.ahead_s += seconds

    def set_clock_off(self, seconds: float) -> None:
        """The harness reports no times of the day."""

    def is_running(self, call: str) -> bool:
        return self.machine.is_running(self._jobs[call])

    def engine_limit_s(self, spec: Any) -> float:
        return limit_s(spec)

    def join(self, name: str) -> str:
        raise NotImplementedError

    def close(self) -> None:
        for call in self._jobs:
            self.launcher.cancel(call)


class TestLocal(LauncherConformance):
    @pytest.fixture
    def bench(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        bench = LocalBench(MachineBench(tmp_path, monkeypatch))
        yield bench
        bench.close()
