"""Looking at GPUs while a job runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from fakes import FakeGpuProbe, FakeSeconds
from kernelcup.errors import UnfitDevice
from kernelcup.launchers.gpu_health.checks import PATIENCE_S, Hygiene
from kernelcup.launchers.gpu_health.monitor import Seen, Watch, is_ours
from kernelcup.launchers.gpu_health.probe import GpuProcess

STRANGER = GpuProcess(pid=4711, name="python3")
OURS = GpuProcess(pid=1, name="contestant")
POWER_CAP, HEAT = 0x4, 0x20


def seen_of(*looks: dict) -> Seen:
    """Return what is seen of GPU 0 in so many looks."""
    probe, seen = FakeGpuProbe("0"), Seen()
    watch = Watch(probe, ours=lambda pid: pid == OURS.pid)
    for changes in looks:
        probe.set("0", **changes)
        watch.look(["0"], seen)
    return seen


def test_a_stranger_that_comes_and_goes_is_remembered_once() -> None:
    seen = seen_of({"processes": (OURS,)}, {"processes": (OURS, STRANGER)}, {}, {"processes": ()})
    assert (seen.spoilt, seen.strangers, seen.looks) == (("0",), {"0": [STRANGER]}, 4)


def test_heat_is_remembered_and_a_limit_on_power_is_no_fault() -> None:
    assert seen_of({"clock_reasons": POWER_CAP, "temperature_c": 60}).slowed == ()
    seen = seen_of({"clock_reasons": HEAT, "temperature_c": 85}, {"clock_reasons": 0, "temperature_c": 70})
    assert seen.slowed == ("0",)
    assert seen.as_object() == {
        "looks": 2,
        "slowed_down": ["0"],
        "clock_reasons": {"0": "0x20"},
        "hottest_c": 85,
    }


def test_a_driver_that_does_not_answer_is_no_reason_to_stop() -> None:
    probe, seen = FakeGpuProbe("0"), Seen()
    probe.broken = "gone"
    Watch(probe).look(["0"], seen)
    assert (seen.looks, seen.spoilt) == (0, ())


def test_it_looks_until_the_block_ends() -> None:
    looked = threading.Event()

    class Telling(FakeGpuProbe):
        def read(self, gpus):
            looked.set()
            return super().read(gpus)

    probe = Telling("0")
    with Watch(probe, every_s=0.001).over(["0"]) as seen:
        assert looked.wait(30)
    reads = probe.reads
    assert seen.looks == reads > 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("watch")]


def test_what_we_started_is_ours_and_so_is_what_we_cannot_see() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        assert is_ours(child.pid)
        assert not is_ours(os.getppid())
    finally:
        child.communicate()
    assert is_ours(2**22 + 1)


def test_company_during_a_job_spoils_it() -> None:
    hygiene = Hygiene(FakeGpuProbe("0"))
    hygiene.check_seen(seen_of({}))
    with pytest.raises(
        UnfitDevice, match=r"GPU 0 during the job: used by process 4711 \(python3\)"
    ) as caught:
        hygiene.check_seen(seen_of({"processes": (STRANGER,)}))
    assert (caught.value.gpus, caught.value.spoils) == (("0",), True)


def test_a_hot_gpu_may_cool_down_before_a_job_and_is_taken_out_if_it_does_not() -> None:
    probe, seconds = FakeGpuProbe("0"), FakeSeconds()
    hygiene = Hygiene(probe, clock=seconds)
    probe.set("0", clock_reasons=HEAT, temperature_c=88)
    probe.set_after(4, "0", clock_reasons=POWER_CAP)
    hygiene.before(["0"], wait=seconds.wait)
    assert 0 < seconds.now < PATIENCE_S
    probe.set("0", clock_reasons=HEAT)
    with pytest.raises(
        UnfitDevice, match=r"slowed down by heat or the power supply at 88 C \(reasons 0x20\)"
    ):
        hygiene.before(["0"], wait=seconds.wait)
    with pytest.raises(UnfitDevice, match="slowed down"):
        hygiene.look_again(["0"])


def test_heat_after_a_job_is_the_jobs_own_and_takes_nothing_out() -> None:
    probe, seconds = FakeGpuProbe("0"), FakeSeconds()
    hygiene = Hygiene(probe, clock=seconds)
    probe.set("0", clock_reasons=HEAT)
    hygiene.after(["0"], wait=seconds.wait)
    assert seconds.now == 0.0
