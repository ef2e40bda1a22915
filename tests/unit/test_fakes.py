from __future__ import annotations

import threading

import pytest

from builders import NOW, make_device, make_report, make_spec
from fakes import FakeClock, FakeGpuLauncher, FakeGpuProbe, FakeLauncher, FakeSeconds
from kernelcup.errors import LaunchCancelled, LaunchError, UnfitDevice
from kernelcup.launchers.base import KeepsGpus, Launcher, check_report
from kernelcup.launchers.gpu_health.probe import GpuProcess, ProbeFailed
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


def test_the_fake_seconds_pass_only_while_somebody_waits() -> None:
    seconds = FakeSeconds()
    assert (seconds(), seconds.wait(2.5), seconds()) == (0.0, False, 2.5)
    seconds.cancelled = True
    assert seconds.wait(1.0)


def test_the_fake_probe_reads_what_was_set() -> None:
    probe = FakeGpuProbe("0", "1")
    probe.set("1", memory_used_bytes=7)
    assert [reading.memory_used_bytes for reading in probe.read(["1", "0"])] == [7, 0]


def test_the_fake_probe_changes_after_some_reads() -> None:
    probe = FakeGpuProbe("0")
    probe.set_after(2, "0", memory_used_bytes=7)
    assert [probe.read(["0"])[0].memory_used_bytes for _ in range(3)] == [0, 0, 7]


def test_the_fake_probe_has_only_its_gpus() -> None:
    with pytest.raises(ProbeFailed, match="no GPU 1"):
        FakeGpuProbe("0").read(["0", "1"])


def test_the_fake_probe_can_be_broken() -> None:
    probe = FakeGpuProbe("0")
    probe.broken = "lost"
    with pytest.raises(ProbeFailed, match="lost"):
        probe.read(["0"])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"memory_used_bytes": -1}, "negative"),
        ({"processes": (GpuProcess(pid=1, name="a", memory_bytes=1),)}, "more memory than is in use"),
        ({"processes": (GpuProcess(pid=1, name="a"), GpuProcess(pid=1, name="b"))}, "same id"),
        ({"errors": {"remapped rows": 0}}, "only grows"),
        ({"errors": {}}, "only grows"),
    ],
)
def test_the_fake_probe_takes_no_state_that_a_driver_would_not_tell(changes, text: str) -> None:
    probe = FakeGpuProbe("0")
    probe.set("0", errors={"remapped rows": 1})
    with pytest.raises(ValueError, match=text):
        probe.set("0", **changes)


def test_only_the_fake_gpu_launcher_keeps_gpus() -> None:
    assert isinstance(FakeGpuLauncher(), KeepsGpus)
    assert not isinstance(FakeLauncher(), KeepsGpus)


def test_the_fake_gpu_launcher_has_no_room_on_what_is_left_out() -> None:
    launcher = FakeGpuLauncher(gpus=["0", "1"])
    launcher.leave_out(frozenset({"1"}))
    assert launcher.capacity(make_device(slots=2)) == 1
    launcher.leave_out(frozenset())
    assert launcher.capacity(make_device(slots=2)) == 2


def test_the_fake_gpu_launcher_gives_a_sick_gpu_no_job_and_then_uses_the_next() -> None:
    launcher = FakeGpuLauncher(gpus=["0", "1"])
    launcher.sick["0"] = "smoke"
    with pytest.raises(UnfitDevice, match="smoke"):
        run(launcher)
    assert launcher.left_out == {"0"}
    assert run(launcher).report.verdict is Verdict.ACCEPTED


def test_the_fake_gpu_launcher_says_what_is_wrong_with_a_gpu() -> None:
    launcher = FakeGpuLauncher()
    launcher.look_again("0")
    launcher.sick["0"] = "smoke"
    with pytest.raises(UnfitDevice, match="smoke"):
        launcher.look_again("0")
    with pytest.raises(ValueError, match="no GPU 1"):
        launcher.look_again("1")
