from __future__ import annotations

import pytest

from fakes import FakeGpuProbe, FakeSeconds
from kernelcup.errors import LaunchCancelled, LaunchError, UnfitDevice
from kernelcup.launchers.gpu_health.checks import PATIENCE_S, TOLERANCE_BYTES, Hygiene
from kernelcup.launchers.gpu_health.cleanup import Swept
from kernelcup.launchers.gpu_health.probe import MIB, GpuProcess

STRANGER = GpuProcess(pid=4711, name="python3", memory_bytes=2048 * MIB)


class Scene:
    """Two GPUs, their hygiene, and what was left behind."""

    def __init__(self) -> None:
        self.probe, self.seconds = FakeGpuProbe("0", "1"), FakeSeconds()
        self.swept = Swept()
        self.hygiene = Hygiene(self.probe, sweep=lambda: self.swept, clock=self.seconds)

    def before(self, *gpus: str) -> None:
        self.hygiene.before(gpus or ["0"], wait=self.seconds.wait)

    def after(self, *gpus: str) -> None:
        self.hygiene.after(gpus or ["0"], wait=self.seconds.wait)

    def unfit(self, check) -> UnfitDevice:
        with pytest.raises(UnfitDevice) as caught:
            check()
        return caught.value


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_clean_gpu_is_not_waited_for(scene: Scene) -> None:
    scene.before()
    scene.after()
    assert (scene.seconds.now, scene.probe.reads) == (0.0, 2)


def test_a_foreign_process_is_named(scene: Scene) -> None:
    scene.before()
    scene.probe.set("0", memory_used_bytes=2048 * MIB, processes=(STRANGER,))
    error = scene.unfit(scene.before)
    assert str(error) == (
        "GPU 0 before the job: used by process 4711 (python3); "
        "2,048 MiB of memory above its baseline of 0 MiB"
    )
    assert (error.gpus, error.spoils) == (("0",), False)
    assert isinstance(error, LaunchError)
    assert PATIENCE_S <= scene.seconds.now < PATIENCE_S + 1


def test_memory_that_comes_back_in_time_is_fine(scene: Scene) -> None:
    scene.before()
    scene.probe.set("0", memory_used_bytes=500 * MIB)
    scene.probe.set_after(3, "0", memory_used_bytes=0)
    scene.after()
    assert 0 < scene.seconds.now < PATIENCE_S


def test_memory_that_stays_is_told_with_its_amount(scene: Scene) -> None:
    scene.probe.set("0", memory_used_bytes=10 * MIB)
    scene.before()
    scene.probe.set("0", memory_used_bytes=1510 * MIB)
    error = scene.unfit(scene.after)
    assert str(error) == "GPU 0 after the job: 1,500 MiB of memory above its baseline of 10 MiB"
    assert not error.spoils


def test_the_drivers_own_use_may_vary_a_little(scene: Scene) -> None:
    scene.before()
    scene.probe.set("0", memory_used_bytes=TOLERANCE_BYTES)
    scene.before()
    scene.probe.set("0", memory_used_bytes=TOLERANCE_BYTES + 1)
    scene.unfit(scene.before)


def test_the_baseline_is_the_lowest_use_that_was_seen(scene: Scene) -> None:
    scene.probe.set("0", memory_used_bytes=9000 * MIB)
    scene.before()
    scene.probe.set("0", memory_used_bytes=0)
    scene.before()
    scene.probe.set("0", memory_used_bytes=9000 * MIB)
    assert "above its baseline of 0 MiB" in str(scene.unfit(scene.before))


def test_a_use_with_processes_is_no_baseline(scene: Scene) -> None:
    scene.probe.set("0", memory_used_bytes=2048 * MIB, processes=(STRANGER,))
    scene.unfit(scene.before)
    scene.probe.set("0", processes=())
    scene.before()
    scene.probe.set("0", memory_used_bytes=4096 * MIB)
    assert "baseline of 2,048 MiB" in str(scene.unfit(scene.before))


def test_a_gpu_that_does_not_tell_its_memory_is_judged_by_the_rest(scene: Scene) -> None:
    scene.probe.set("0", memory_used_bytes=None)
    scene.before()
    scene.probe.set("0", processes=(STRANGER,))
    scene.unfit(scene.before)


def test_old_errors_do_not_count_and_new_ones_do_at_once(scene: Scene) -> None:
    scene.probe.set("0", errors={"remapped rows": 3})
    scene.before()
    scene.probe.set("0", errors={"remapped rows": 5})
    error = scene.unfit(scene.after)
    assert str(error) == "GPU 0 after the job: 2 new remapped rows"
    assert error.spoils
    assert scene.seconds.now == 0.0


def test_an_error_counts_once(scene: Scene) -> None:
    scene.before()
    scene.probe.set("0", errors={"Xid errors": 0})
    scene.before()
    scene.probe.set("0", errors={"Xid errors": 1})
    scene.unfit(scene.before)
    scene.hygiene.look_again(["0"])
    scene.before()


def test_memory_that_cannot_be_replaced_never_passes(scene: Scene) -> None:
    scene.probe.set("0", remap_failed=True)
    for _ in range(2):
        assert "could not be replaced" in str(scene.unfit(scene.before))


def test_a_process_after_the_job_spoils_what_was_measured(scene: Scene) -> None:
    scene.before()
    scene.probe.set("0", memory_used_bytes=2048 * MIB, processes=(STRANGER,))
    assert scene.unfit(scene.after).spoils


def test_a_driver_that_does_not_answer_is_waited_for_and_then_told(scene: Scene) -> None:
    scene.probe.broken = "nvidia-smi did not answer within 10 s"
    error = scene.unfit(lambda: scene.before("0", "1"))
    assert error.gpus == ("0", "1")
    assert "GPU 1 before the job: nvidia-smi did not answer" in str(error)
    assert scene.seconds.now >= PATIENCE_S


def test_only_the_gpus_that_are_unfit_are_named(scene: Scene) -> None:
    scene.before("0", "1")
    scene.probe.set("1", memory_used_bytes=1000 * MIB)
    assert scene.unfit(lambda: scene.before("0", "1")).gpus == ("1",)


def test_waiting_ends_when_it_is_cancelled(scene: Scene) -> None:
    scene.probe.set("0", memory_used_bytes=2048 * MIB, processes=(STRANGER,))
    scene.seconds.cancelled = True
    with pytest.raises(LaunchCancelled):
        scene.before()


def test_what_is_removed_is_logged_and_what_stays_is_unfit(scene: Scene, caplog) -> None:
    scene.swept = Swept(removed=("/dev/shm/left",))
    scene.before()
    assert "/dev/shm/left" in caplog.text
    scene.swept = Swept(stuck=("/tmp/stuck",))
    assert "left behind by a run, cannot be removed: /tmp/stuck" in str(scene.unfit(scene.before))


def test_a_look_has_no_patience(scene: Scene) -> None:
    scene.before()
    scene.hygiene.look_again(["0"])
    scene.probe.set("0", memory_used_bytes=2048 * MIB)
    assert str(scene.unfit(lambda: scene.hygiene.look_again(["0"]))).startswith("GPU 0: 2,048 MiB")
    assert scene.seconds.now == 0.0


def test_a_gpu_that_somebody_vouches_for_has_a_new_baseline(scene: Scene) -> None:
    scene.before()
    scene.probe.set("0", memory_used_bytes=2048 * MIB)
    scene.unfit(scene.before)
    scene.hygiene.forget(["0", "1"])
    scene.before()
