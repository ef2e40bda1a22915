from __future__ import annotations

from datetime import timedelta

import pytest

from builders import NOW, make_device
from fakes import FakeGpuLauncher, FakeLauncher
from kernelcup.app.machines.outages import (
    LONGEST_PAUSE,
    OVERDUE,
    SHORTEST_PAUSE,
    Fitness,
    bring_back,
    outage_text,
    outages,
    take_out,
)
from kernelcup.app.machines.queries import outages as faults
from kernelcup.app.queue.progress import GpuBack, GpuOut
from kernelcup.errors import LaunchError, NotFound, StorageUnavailable, UnfitDevice

SMOKE = UnfitDevice("GPU 0: smoke", gpus=["0"])


class Scene:
    """A machine with two GPUs, and what its dispatcher knows of them."""

    def __init__(self, db, clock) -> None:
        self.db, self.clock = db, clock
        self.launcher = FakeGpuLauncher(gpus=["0", "1"])
        self.told: list[object] = []
        self.fitness = self.another()

    def another(self, launcher: FakeLauncher | None = None, beside=lambda work: work()) -> Fitness:
        return Fitness(
            self.db,
            {"fake": launcher or self.launcher},
            tell=self.told.append,
            clock=self.clock,
            machine="here",
            beside=beside,
        )

    def take_out(self, error: UnfitDevice = SMOKE, machine: str = "here") -> None:
        take_out(self.db, error, device="H100", now=self.clock(), machine=machine)

    def out(self):
        return outages(self.db, now=self.clock())

    def pass_time(self, time: timedelta) -> None:
        self.clock.advance(time.total_seconds())
        self.fitness.refresh()


@pytest.fixture
def scene(db, clock) -> Scene:
    return Scene(db, clock)


def test_what_is_out_of_service_is_left_out_and_told_once(scene: Scene) -> None:
    scene.take_out()
    scene.fitness.refresh()
    scene.fitness.refresh()
    assert scene.launcher.left_out == {"0"}
    assert [type(item) for item in scene.told] == [GpuOut]
    assert scene.launcher.looks == []


def test_other_machines_are_none_of_our_business(scene: Scene) -> None:
    scene.take_out(machine="there")
    scene.fitness.refresh()
    assert (scene.launcher.left_out, scene.told) == (frozenset(), [])
    assert [fault.machine for fault in scene.out()] == ["there"]


def test_a_clean_gpu_comes_back_by_itself_after_a_pause(scene: Scene) -> None:
    scene.take_out()
    scene.fitness.refresh()
    scene.pass_time(SHORTEST_PAUSE)
    assert (scene.launcher.left_out, scene.out()) == (frozenset(), [])
    assert [type(item) for item in scene.told] == [GpuOut, GpuBack]
    assert scene.launcher.forgotten == set()


def test_a_gpu_that_stays_sick_is_looked_at_ever_less_often(scene: Scene) -> None:
    scene.launcher.sick["0"] = "GPU 0: fire"
    scene.take_out()
    moments = []
    for _ in range(60):
        before = len(scene.launcher.looks)
        scene.pass_time(SHORTEST_PAUSE)
        if len(scene.launcher.looks) > before:
            moments.append(scene.clock() - scene.out()[0].since)
    minutes = [moment / SHORTEST_PAUSE for moment in moments]
    assert minutes[:5] == [1, 2, 4, 8, 16]
    assert (moments[-1] - moments[-2]) == LONGEST_PAUSE
    (fault,) = scene.out()
    assert fault.reason == "GPU 0: fire"


def test_a_gpu_that_cannot_be_looked_at_keeps_its_reason(scene: Scene) -> None:
    def busy(gpu: str) -> None:
        raise UnfitDevice(f"GPU {gpu}: another KernelCup process uses it")

    scene.launcher.look_again = busy  # type: ignore[method-assign]
    scene.take_out()
    scene.pass_time(SHORTEST_PAUSE)
    assert [fault.reason for fault in scene.out()] == ["GPU 0: smoke"]


def test_the_same_gpu_again_changes_the_reason_and_not_since_when(scene: Scene) -> None:
    scene.take_out()
    since = scene.clock()
    scene.clock.advance(30)
    scene.take_out(UnfitDevice("GPU 0: fire", gpus=["0"]))
    (fault,) = scene.out()
    assert (fault.since, fault.reason) == (since, "GPU 0: fire")


def test_an_operator_brings_a_device_back_and_vouches_for_it(scene: Scene) -> None:
    scene.take_out(UnfitDevice("both", gpus=["0", "1"]))
    scene.fitness.refresh()
    assert [fault.gpu for fault in bring_back(scene.db, "h100", now=NOW)] == ["0", "1"]
    scene.fitness.refresh()
    assert (scene.launcher.left_out, scene.launcher.forgotten) == (frozenset(), {"0", "1"})


def test_an_operator_may_mean_one_machine(scene: Scene) -> None:
    scene.take_out()
    scene.take_out(machine="there")
    bring_back(scene.db, "H100", machine="there", now=NOW)
    assert [fault.machine for fault in scene.out()] == ["here"]
    with pytest.raises(NotFound, match="No GPU of H100 is out of service on there"):
        bring_back(scene.db, "H100", machine="there", now=NOW)


def test_what_nobody_looks_at_any_more_is_forgotten(scene: Scene) -> None:
    scene.take_out(machine="gone")
    scene.clock.advance((SHORTEST_PAUSE + OVERDUE).total_seconds())
    assert len(scene.out()) == 1
    scene.clock.advance(1)
    assert scene.out() == []
    scene.take_out()
    scene.clock.advance(-3600)
    assert [fault.machine for fault in scene.out()] == ["here"]


def test_a_new_dispatcher_knows_what_the_last_one_found(scene: Scene) -> None:
    scene.take_out()
    successor = FakeGpuLauncher(gpus=["0", "1"])
    scene.another(successor).refresh()
    assert successor.left_out == {"0"}
    assert successor.capacity(make_device(slots=2)) == 1


def test_a_launcher_without_gpus_is_left_alone(scene: Scene) -> None:
    scene.take_out()
    scene.another(FakeLauncher()).refresh()
    assert scene.told == []


def test_who_waits_is_told_what_is_the_matter(scene: Scene) -> None:
    scene.take_out()
    assert outage_text(scene.out()) == "H100 on here is out of service: GPU 0: smoke"


def test_gpus_are_looked_at_one_for_each_heartbeat(scene: Scene) -> None:
    scene.take_out(UnfitDevice("GPU 0, GPU 1: smoke", gpus=["0", "1"]))
    scene.pass_time(SHORTEST_PAUSE)
    assert len(scene.launcher.looks) == 1
    scene.fitness.refresh()
    assert sorted(scene.launcher.looks) == ["0", "1"]
    assert scene.out() == []


def test_a_look_that_takes_long_keeps_nobody_from_renewing_leases(scene: Scene) -> None:
    works = []
    scene.fitness = scene.another(beside=works.append)
    scene.take_out()
    scene.fitness.refresh()
    scene.pass_time(SHORTEST_PAUSE)
    scene.pass_time(SHORTEST_PAUSE)
    (work,) = works
    assert (scene.launcher.looks, scene.launcher.left_out) == ([], frozenset({"0"}))
    work()
    scene.fitness.refresh()
    assert (scene.launcher.looks, scene.launcher.left_out) == (["0"], frozenset())
    assert scene.launcher.forgotten == set()  # nobody vouched for it
    assert [type(each) for each in scene.told] == [GpuOut, GpuBack]


def test_a_look_whose_outcome_cannot_be_stored_is_not_the_last(scene: Scene, monkeypatch) -> None:
    def locked(*_args, **_options):
        raise StorageUnavailable("locked")

    works = []
    scene.fitness = scene.another(beside=works.append)
    scene.take_out()
    scene.pass_time(SHORTEST_PAUSE)
    with monkeypatch.context() as broken:
        broken.setattr(faults, "remove", locked)
        works.pop()()
    scene.fitness.refresh()
    works.pop()()
    assert scene.out() == []


def test_a_gpu_whose_lock_cannot_be_had_is_looked_at_later(scene: Scene) -> None:
    class Launcher(FakeGpuLauncher):
        def look_again(self, gpu):
            super().look_again(gpu)
            raise LaunchError("no lock can be had")

    scene.launcher = Launcher(gpus=["0"])
    scene.fitness = scene.another()
    scene.take_out()
    scene.pass_time(SHORTEST_PAUSE)
    scene.fitness.refresh()
    assert scene.launcher.looks == ["0"]
    assert [fault.reason for fault in scene.out()] == ["GPU 0: smoke"]
