"""The conformance suite passes on a good launcher, and fails for each rule that a launcher breaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fake_fleet import FakeEngine, FakeFleet, FakeFleetBench
from kernelcup.errors import LaunchError
from kernelcup.launchers.base import LaunchResult, Polled
from launcher_conformance import LauncherConformance, make_order


class TestFakeFleet(LauncherConformance):
    @pytest.fixture
    def bench(self) -> FakeFleetBench:
        return FakeFleetBench()


class Breaks(FakeFleetBench):
    """A bench whose launcher or engine breaks one rule."""

    def __init__(self, launcher: type[FakeFleet] = FakeFleet, **changes: Callable[..., object]) -> None:
        super().__init__()
        self.kind = launcher
        self.launcher = launcher(self.engine)
        for name, change in changes.items():
            setattr(self, name, change)

    def restarted(self) -> FakeFleet:
        return self.kind(self.engine)


class Repeats(FakeFleet):
    """Reports events again."""

    def _news(self, name: str) -> Polled:
        call = self.engine.calls.get(name)
        news = super()._news(name)
        if call is not None:
            call.events = list(news.events)
        return news


class Forgets(FakeFleet):
    """Reports an outcome once, and forgets calls in a restart."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__(engine)
        engine.calls.clear()

    def _news(self, name: str) -> Polled:
        news = super()._news(name)
        if news.outcome is not None:
            self.engine.calls.pop(name, None)
        return news


class Refuses(FakeFleet):
    """Fails for unknown calls."""

    def cancel(self, call: str) -> None:
        if call not in self.engine.calls:
            raise LaunchError("no such call")
        super().cancel(call)


class Leaks(FakeFleet):
    """Never ends a call."""

    def cancel(self, call: str) -> None:
        pass


class Mixes(FakeFleet):
    """Gives each call the news of the first."""

    def _news(self, name: str) -> Polled:
        return super()._news(next(iter(self.engine.calls), name))


class NoLimit(FakeFleet):
    """Waits for ever."""

    def poll(self, calls):
        return {name: self._news(name) for name in calls}


def overwrite(bench: FakeFleetBench) -> Callable[..., None]:
    def report(call: str, body: object) -> None:
        if call in bench.engine.calls:
            bench.engine.calls[call].outcome = None
            bench.engine.report(call, body)

    return report


RULES = LauncherConformance()


@pytest.mark.parametrize(
    ("launcher", "rule"),
    [
        (Repeats, "test_events_come_once_and_in_order"),
        (Forgets, "test_an_outcome_is_reported_until_the_call_is_cancelled"),
        (Forgets, "test_after_a_restart_a_durable_call_goes_on_and_another_is_lost"),
        (Refuses, "test_an_unknown_call_is_lost_and_can_be_cancelled"),
        (Leaks, "test_a_late_report_of_a_cancelled_call_is_not_taken"),
        (NoLimit, "test_a_call_without_a_report_ends_at_its_limit"),
        (Mixes, "test_calls_do_not_mix"),
    ],
)
def test_a_launcher_that_breaks_a_rule_is_found(launcher, rule: str, monkeypatch) -> None:
    monkeypatch.setattr("launcher_conformance.PATIENCE_S", 0.05)
    with pytest.raises((AssertionError, LaunchError)):
        run_rule(rule, Breaks(launcher))


def test_an_engine_that_takes_a_second_report_is_found() -> None:
    bench = FakeFleetBench()
    bench.come_back = overwrite(bench)
    for rule in ("test_a_second_report_changes_nothing", "test_a_machine_that_comes_back_changes_nothing"):
        with pytest.raises(AssertionError):
            run_rule(rule, bench)


def test_an_engine_whose_limit_is_shorter_than_our_stages_is_found() -> None:
    bench = Breaks(engine_limit_s=lambda spec: 900.0)
    with pytest.raises(AssertionError):
        run_rule("test_the_engine_waits_as_long_as_our_stages_may_take", bench)


def test_an_engine_that_gives_two_machines_one_name_is_found() -> None:
    bench = Breaks(join=lambda name: name)
    with pytest.raises(AssertionError):
        run_rule("test_two_machines_of_one_name_are_told_apart", bench)


def test_an_unreadable_report_is_not_a_result() -> None:
    bench, order = FakeFleetBench(), make_order()
    call = bench.launcher.start(order, wake=lambda: None)
    bench.report(call, {"nonsense": 1})
    assert not isinstance(bench.launcher.poll([call])[call].outcome, LaunchResult)


def run_rule(rule: str, bench: FakeFleetBench) -> None:
    test = getattr(RULES, rule)
    takes_order = "order" in test.__annotations__
    test(bench, make_order()) if takes_order else test(bench)
