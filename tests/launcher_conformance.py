"""What every launcher does. A launcher's tests inherit :class:`LauncherConformance` and provide its ``bench``."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

import pytest

from builders import make_device, make_report, make_spec
from kernelcup.domain import Device
from kernelcup.errors import BadReport, KernelCupError, LaunchLost, LaunchTimeout
from kernelcup.launchers.base import (
    Event,
    Launcher,
    LaunchResult,
    Order,
    Polled,
    check_result,
    limit_s,
    stages_s,
)
from kernelcup.launchers.bundle import harness_hash
from kernelcup_harness.protocol import Backend, JobSpec, Limits, Mode, RunReport, to_json

PATIENCE_S = 30.0
"""A test that waits longer has failed."""


class LauncherBench(Protocol):
    """A launcher with its engine, or a fake of it, and the machines behind it."""

    launcher: Launcher
    joins: bool
    """Whether machines join under names of their own choice."""
    live: bool
    """Whether events come while a call runs; else they come with its outcome."""

    def restarted(self) -> Launcher:
        """Return the launcher of a new dispatcher on the same engine; the old one is not used again."""
        ...

    def begun(self, call: str) -> None:
        """Wait until a machine works on the call."""
        ...

    def tell(self, call: str, event: Event) -> None:
        """Have the machine report an event."""
        ...

    def report(self, call: str, report: Any) -> None:
        """Have the machine end with a report."""
        ...

    def use_harness(self, harness: str) -> None:
        """Have the machines judge with another harness from now on, and say its hash."""
        ...

    def report_too_much(self, call: str) -> None:
        """Have the machine end with a report above the launcher's limit."""
        ...

    def lose(self, call: str) -> None:
        """Have the machine vanish in the middle of the call."""
        ...

    def come_back(self, call: str, report: Any) -> None:
        """Have a lost machine come back and report."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let time pass on all clocks."""
        ...

    def set_clock_off(self, seconds: float) -> None:
        """Set the wall clock of the machines ahead."""
        ...

    def is_running(self, call: str) -> bool:
        """Return whether a machine still works on the call."""
        ...

    def engine_limit_s(self, spec: JobSpec) -> float:
        """Return after how many seconds the engine itself ends a call, infinity if it never does."""
        ...

    def join(self, name: str) -> str:
        """Have another machine join under a name; return the name that it is known by."""
        ...


def make_order(device: Device | None = None, **overrides: Any) -> Order:
    """Return a short job in test mode."""
    spec = make_spec(**{"limits": Limits(import_s=1, test_s=1, benchmark_s=1, ranked_s=1), **overrides})
    device = device or make_device(backend=Backend.EMULATED, slots=2)
    return Order(spec=spec, device=device, harness_hash=harness_hash())


def report_for(order: Order, **overrides: Any) -> dict[str, Any]:
    """Return the body of a report that answers the order."""
    values = {
        "job_id": order.spec.job_id,
        "mode": order.spec.mode,
        "backend": order.spec.backend,
        "stages": [],
    }
    body = to_json(make_report(**values))
    assert isinstance(body, dict)
    return body | overrides


def case_event(number: int) -> Event:
    """Return the event of a case."""
    about = {"stage": "test", "case": number, "verdict": "accepted", "hidden": False, "score_ns": None}
    return {"event": "case", **about}


class LauncherConformance:
    """The rules of :class:`kernelcup.launchers.base.Launcher`."""

    @pytest.fixture
    def order(self) -> Order:
        return make_order()

    def begin(self, bench: LauncherBench, order: Order) -> str:
        """Start a call, and wait until a machine has it."""
        call = bench.launcher.start(order, wake=lambda: None)
        bench.begun(call)
        return call

    def poll(self, launcher: Launcher, call: str) -> Polled:
        """Poll one call."""
        return launcher.poll([call]).get(call, Polled())

    def events(self, launcher: Launcher, call: str, number: int) -> list[Event]:
        """Poll until there were that many events."""
        found: list[Event] = []
        until = time.monotonic() + PATIENCE_S
        while len(found) < number:
            assert time.monotonic() < until, found
            found += self.poll(launcher, call).events
        return found

    def outcome(self, launcher: Launcher, call: str, order: Order) -> LaunchResult | Exception:
        """Poll until the call has ended, and check its report as a dispatcher does."""
        until = time.monotonic() + PATIENCE_S
        while (outcome := self.poll(launcher, call).outcome) is None:
            assert time.monotonic() < until, "the call did not end"
        if isinstance(outcome, LaunchResult):
            try:
                check_result(order, outcome)
            except BadReport as error:
                return error
        return outcome

    def accepted(self, launcher: Launcher, call: str, order: Order) -> RunReport:
        """Poll until the call has ended well."""
        outcome = self.outcome(launcher, call, order)
        assert isinstance(outcome, LaunchResult), outcome
        return outcome.report

    def test_a_call_has_no_outcome_while_it_runs(self, bench: LauncherBench, order: Order) -> None:
        assert self.poll(bench.launcher, self.begin(bench, order)).outcome is None

    def test_events_come_once_and_in_order(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        told = [case_event(number) for number in range(3)]
        for event in told[:2]:
            bench.tell(call, event)
        if not bench.live:
            bench.report(call, report_for(order))
            assert self.events(bench.launcher, call, 2) == told[:2]
            assert self.poll(bench.launcher, call).events == ()
            return
        assert self.events(bench.launcher, call, 2) == told[:2]
        bench.tell(call, told[2])
        assert self.events(bench.launcher, call, 1) == told[2:]
        assert self.poll(bench.launcher, call).events == []

    def test_a_report_comes_back_with_machine_and_harness(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        bench.report(call, report_for(order))
        outcome = self.outcome(bench.launcher, call, order)
        assert isinstance(outcome, LaunchResult), outcome
        assert (outcome.report.job_id, outcome.harness_hash) == (order.spec.job_id, order.harness_hash)
        assert outcome.machine
        assert self.poll(bench.launcher, call).machine == outcome.machine

    def test_an_outcome_is_reported_until_the_call_is_cancelled(
        self, bench: LauncherBench, order: Order
    ) -> None:
        call = self.begin(bench, order)
        bench.report(call, report_for(order))
        first = self.accepted(bench.launcher, call, order)
        assert self.accepted(bench.launcher, call, order) == first

    def test_capacity_counts_what_runs(self, bench: LauncherBench, order: Order) -> None:
        free = bench.launcher.capacity(order.device)
        call = self.begin(bench, order)
        assert bench.launcher.capacity(order.device) == free - 1
        bench.report(call, report_for(order))
        self.accepted(bench.launcher, call, order)
        bench.launcher.cancel(call)
        assert self.soon(lambda: bench.launcher.capacity(order.device) == free)

    def test_a_cancelled_call_ends_and_its_slot_is_free_again(
        self, bench: LauncherBench, order: Order
    ) -> None:
        free = bench.launcher.capacity(order.device)
        call = self.begin(bench, order)
        bench.launcher.cancel(call)
        assert self.soon(lambda: not bench.is_running(call))
        assert self.soon(lambda: bench.launcher.capacity(order.device) == free)

    def test_a_late_report_of_a_cancelled_call_is_not_taken(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        bench.launcher.cancel(call)
        bench.come_back(call, report_for(order))
        outcome = self.poll(bench.launcher, call).outcome
        assert not isinstance(outcome, LaunchResult)

    def test_an_unknown_call_is_lost_and_can_be_cancelled(self, bench: LauncherBench) -> None:
        bench.launcher.cancel("unknown")
        assert isinstance(self.poll(bench.launcher, "unknown").outcome, LaunchLost)

    def test_the_call_of_a_lost_machine_is_lost(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        bench.lose(call)
        outcome = self.outcome(bench.launcher, call, order)
        assert isinstance(outcome, Exception)
        assert isinstance(outcome, KernelCupError)

    def test_a_machine_that_comes_back_changes_nothing(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        bench.lose(call)
        lost = self.outcome(bench.launcher, call, order)
        bench.come_back(call, report_for(order))
        assert type(self.outcome(bench.launcher, call, order)) is type(lost)

    def test_a_call_without_a_report_ends_at_its_limit(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        bench.pass_time(0.5 * stages_s(order.spec))
        assert self.poll(bench.launcher, call).outcome is None
        bench.pass_time(limit_s(order.spec))
        assert isinstance(self.outcome(bench.launcher, call, order), LaunchTimeout | LaunchLost)
        assert self.soon(lambda: not bench.is_running(call))

    def test_the_engine_waits_as_long_as_our_stages_may_take(self, bench: LauncherBench) -> None:
        for mode in Mode:
            for seconds in (1.0, 60.0, 180.0, 900.0):
                limits = Limits(import_s=seconds, test_s=seconds, benchmark_s=seconds, ranked_s=seconds)
                spec = make_spec(mode=mode, limits=limits)
                assert bench.engine_limit_s(spec) >= limit_s(spec)

    def test_a_report_that_is_too_large_is_refused(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        bench.report_too_much(call)
        assert isinstance(self.outcome(bench.launcher, call, order), BadReport)

    @pytest.mark.parametrize(
        "wrong", [{"version": 0}, {"job_id": "9.9"}, {"mode": "profile"}, {"nonsense": 1}]
    )
    def test_a_report_of_another_version_or_job_is_refused(
        self, bench: LauncherBench, order: Order, wrong: dict[str, Any]
    ) -> None:
        call = self.begin(bench, order)
        bench.report(call, report_for(order, **wrong))
        assert isinstance(self.outcome(bench.launcher, call, order), BadReport)

    def test_a_report_of_another_harness_is_refused(self, bench: LauncherBench, order: Order) -> None:
        bench.use_harness("0" * 64)
        call = self.begin(bench, order)
        bench.report(call, report_for(order))
        assert isinstance(self.outcome(bench.launcher, call, order), BadReport)

    def test_a_second_report_changes_nothing(self, bench: LauncherBench, order: Order) -> None:
        call = self.begin(bench, order)
        bench.report(call, report_for(order, message="first"))
        assert self.accepted(bench.launcher, call, order).message == "first"
        bench.come_back(call, report_for(order, message="second"))
        assert self.accepted(bench.launcher, call, order).message == "first"

    def test_after_a_restart_a_durable_call_goes_on_and_another_is_lost(
        self, bench: LauncherBench, order: Order
    ) -> None:
        call = self.begin(bench, order)
        durable = bench.launcher.durable
        launcher = bench.restarted()
        if not durable:
            assert isinstance(self.outcome(launcher, call, order), LaunchLost)
            return
        assert self.poll(launcher, call).outcome is None
        bench.report(call, report_for(order))
        self.accepted(launcher, call, order)

    def test_a_machine_whose_clock_is_an_hour_off_judges(self, bench: LauncherBench, order: Order) -> None:
        bench.set_clock_off(3600)
        call = self.begin(bench, order)
        assert self.poll(bench.launcher, call).outcome is None
        bench.report(call, report_for(order))
        self.accepted(bench.launcher, call, order)

    def test_calls_do_not_mix(self, bench: LauncherBench) -> None:
        orders = [make_order(job_id=f"{number}.1") for number in (1, 2)]
        calls = [self.begin(bench, order) for order in orders]
        for call, order in zip(calls, reversed(orders), strict=True):
            bench.tell(call, case_event(int(order.spec.job_id[0])))
        for call, order in zip(calls, orders, strict=True):
            bench.report(call, report_for(order))
            assert self.accepted(bench.launcher, call, order).job_id == order.spec.job_id

    def test_two_machines_of_one_name_are_told_apart(self, bench: LauncherBench) -> None:
        if not bench.joins:
            pytest.skip("machines do not join this launcher")
        first = bench.join("twin")
        try:
            second = bench.join("twin")
        except KernelCupError:
            return
        assert second != first

    def test_the_machines_can_be_listed(self, bench: LauncherBench, order: Order) -> None:
        self.begin(bench, order)
        found = bench.launcher.probe([order.device])
        assert len({each.name for each in found}) == len(found) > 0
        assert sum(each.slots.get(order.device.name, 0) for each in found) >= 1

    def soon(self, is_so: Any) -> bool:
        """Return whether something becomes true."""
        until = time.monotonic() + PATIENCE_S
        pause = threading.Event()
        while not is_so():
            if time.monotonic() > until:
                return False
            pause.wait(0.005)
        return True
