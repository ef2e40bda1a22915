from __future__ import annotations

import threading

import pytest

from builders import make_device, make_spec
from fakes import FakeGpuProbe, FakeLauncher
from kernelcup.launchers.base import Launcher, check_report
from kernelcup.launchers.gpu_health.probe import GpuProcess


def run(launcher: Launcher, cancelled: threading.Event | None = None):
    return launcher.run(
        make_spec(), make_device(), on_event=lambda _: None, cancelled=cancelled or threading.Event()
    )


def test_the_fake_launcher_answers_the_job_that_it_was_given() -> None:
    check_report(make_spec(), run(FakeLauncher()).report)


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
