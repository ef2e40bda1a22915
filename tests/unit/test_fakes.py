from __future__ import annotations

import threading

import pytest

from builders import NOW, make_device, make_report, make_spec
from fakes import FakeClock, FakeLauncher
from kernelcup.errors import LaunchCancelled, LaunchError
from kernelcup.launchers.base import Launcher, check_report
from kernelcup_harness.protocol import Verdict


def run(launcher: Launcher, cancelled: threading.Event | None = None):
    return launcher.run(
        make_spec(), make_device(), on_event=lambda _: None, cancelled=cancelled or threading.Event()
    )


def test_the_fake_launcher_gives_its_outcomes_in_turn() -> None:
    launcher = FakeLauncher(LaunchError("lost"), make_report(verdict=Verdict.WRONG_ANSWER))
    with pytest.raises(LaunchError, match="lost"):
        run(launcher)
    assert run(launcher).report.verdict is Verdict.WRONG_ANSWER
    assert run(launcher).report.verdict is Verdict.ACCEPTED


def test_the_fake_launcher_answers_the_job_that_it_was_given() -> None:
    check_report(make_spec(), run(FakeLauncher()).report)


def test_the_fake_launcher_can_be_cancelled_while_its_gate_is_closed() -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(LaunchCancelled):
        run(FakeLauncher(gate=threading.Event()), cancelled)


def test_the_fake_launcher_has_its_room_back_after_a_failure() -> None:
    launcher = FakeLauncher(LaunchError("lost"))
    with pytest.raises(LaunchError):
        run(launcher)
    assert launcher.capacity(make_device()) == 1


def test_the_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock()
    assert clock() == clock() == NOW
    clock.advance(60)
    assert (clock() - NOW).total_seconds() == 60
