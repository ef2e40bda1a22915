"""What is measured when, what is kept, and what follows from a canary that has drifted."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from builders import make_board, make_calibration, make_device, make_report, make_submission
from fakes import FakeGpuLauncher
from kernelcup.app.machines import calibrations
from kernelcup.app.machines.calibrations import (
    LONGEST_HOLD,
    PATIENCE,
    PUBLISH_EVERY,
    RESTED,
    RETRY,
    Calibrations,
    DatabaseBook,
)
from kernelcup.app.machines.outages import bring_back, outages
from kernelcup.app.machines.queries import calibrations as stored
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import Device
from kernelcup.errors import LaunchError
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.local.calibrate import Place
from kernelcup.tables import RunRow
from kernelcup_harness.doubt import floor
from kernelcup_harness.protocol import Backend, Calibration, DeviceFacts, Work
from kernelcup_harness.protocol.calibration import DeviceCalibration

SIX_HOURS = timedelta(hours=6)
H100 = make_device()


class Bench(FakeGpuLauncher):
    """A launcher whose devices are calibrated with what a test says."""

    def __init__(self, *outcomes: Any, gpus: tuple[str, ...] = ("0",)) -> None:
        super().__init__(*outcomes, gpus=gpus)
        self.found: dict[str, DeviceCalibration | LaunchError | None] = {}
        """By GPU; None: somebody has it."""
        self.measured: list[Place] = []
        self.facts: dict[Place, DeviceFacts] = {}

    def places(self, device: Device) -> tuple[str, ...]:
        return self.gpus if device.backend is Backend.CUDA else ("",)

    def calibrate(self, device: Device, gpu: str, *, cancelled: threading.Event) -> DeviceCalibration | None:
        found = self.found.get(gpu, make_calibration())
        if isinstance(found, LaunchError):
            self.measured.append((device.name, gpu))
            raise found
        if found is not None:
            self.measured.append((device.name, gpu))
        return found

    def use_facts(self, facts: Mapping[Place, DeviceFacts]) -> None:
        self.facts = dict(facts)

    def run(self, spec, device, *, on_event, cancelled) -> LaunchResult:
        facts = self.facts.get((device.name, self.gpus[0]))
        spec = dataclasses.replace(spec, device=facts)
        done = super().run(spec, device, on_event=on_event, cancelled=cancelled)
        return dataclasses.replace(done, facts=facts, machine="here")


class Scene:
    """A machine with H100s and what its dispatcher knows of them."""

    def __init__(self, db, clock) -> None:
        self.db, self.clock = db, clock
        self.bench = Bench()
        self.devices = [H100]
        self.calibrations = self.another()

    def another(self, every: timedelta | None = SIX_HOURS) -> Calibrations:
        made = Calibrations(
            DatabaseBook(self.db, clock=self.clock, machine="here"),
            self.devices,
            {"fake": self.bench},
            clock=self.clock,
            every=every,
            beside=lambda work: work(),
        )
        made.start()
        return made

    def pass_time(self, time: timedelta) -> None:
        self.clock.advance(time.total_seconds())
        self.calibrations.refresh()

    def canary(self, canary_ns: float, device: str = "H100", gpu: str = "0", **changes: Any):
        return calibrations.store(
            self.db,
            make_calibration(canary_ns, **changes),
            machine="here",
            gpu=gpu,
            device=device,
            now=self.clock(),
        )

    def median(self) -> float | None:
        with self.db.read() as session:
            return stored.rolling_median(session, machine="here", gpu="0", device="H100")


@pytest.fixture
def scene(db, clock) -> Scene:
    return Scene(db, clock)


def test_a_dispatcher_that_starts_measures_each_gpu_and_tells_jobs(scene: Scene) -> None:
    scene.bench.gpus = ("0", "1")
    scene.calibrations.refresh()
    scene.calibrations.refresh()
    assert scene.bench.measured == [("H100", "0"), ("H100", "1")]
    scene.calibrations.refresh()
    facts = scene.bench.facts["H100", "1"]
    assert (facts.copy_bytes_per_s, facts.matrix_flops_per_s) == (3.0e12, {"fp16": 7e14})
    assert (facts.l2_bytes, facts.canary_ns, facts.canary_tolerance) == (50 << 20, 100.0, 0.05)
    assert facts.calibration_id == "2"


def test_it_measures_again_on_a_schedule_and_not_before(scene: Scene) -> None:
    scene.calibrations.refresh()
    scene.pass_time(SIX_HOURS - timedelta(seconds=1))
    assert len(scene.bench.measured) == 1
    scene.pass_time(timedelta(seconds=1))
    assert len(scene.bench.measured) == 2
    (record,) = calibrations.newest(scene.db)
    assert (record.id, len(calibrations.history(scene.db, record))) == (2, 2)


def test_one_that_starts_again_soon_does_not_measure_again(scene: Scene) -> None:
    scene.calibrations.refresh()
    scene.clock.advance(RESTED.total_seconds() - 1)
    scene.another().refresh()
    assert len(scene.bench.measured) == 1
    scene.clock.advance(1)
    scene.another().refresh()
    assert len(scene.bench.measured) == 2


def test_who_shall_not_measure_tells_jobs_what_is_known(scene: Scene) -> None:
    scene.canary(100.0)
    scene.another(every=None).refresh()
    assert scene.bench.measured == []
    assert scene.bench.facts["H100", "0"].calibration_id == "1"


def test_an_emulated_device_is_never_measured(scene: Scene) -> None:
    scene.devices = [make_device(name="emulated", backend=Backend.EMULATED)]
    scene.another().refresh()
    assert scene.bench.measured == []


def test_a_busy_gpu_is_waited_for_and_then_given_no_new_job(scene: Scene) -> None:
    scene.bench.found["0"] = None
    scene.calibrations.refresh()
    assert not scene.calibrations.holds(H100)
    scene.pass_time(PATIENCE)
    assert scene.calibrations.holds(H100)
    assert not scene.calibrations.holds(make_device(name="cpu", backend=Backend.EMULATED))
    scene.bench.found["0"] = make_calibration()
    scene.calibrations.refresh()
    assert not scene.calibrations.holds(H100)
    assert len(scene.bench.measured) == 1


def test_a_gpu_that_never_becomes_free_does_not_stop_its_device_for_good(scene: Scene) -> None:
    """Its lock may be held by a process that hangs; the device may have other GPUs."""
    scene.bench.found["0"] = None
    scene.calibrations.refresh()
    scene.pass_time(PATIENCE + LONGEST_HOLD)
    assert scene.calibrations.holds(H100)
    scene.pass_time(timedelta(seconds=1))
    assert not scene.calibrations.holds(H100)
    scene.bench.found["0"] = make_calibration()
    scene.calibrations.refresh()
    assert len(scene.bench.measured) == 1


def test_no_job_of_another_device_takes_a_gpu_that_is_waited_for(scene: Scene) -> None:
    other = make_device(name="H100-long")
    scene.devices.append(other)
    scene.canary(100.0, device="H100-long")  # just now: it is not due
    scene.calibrations = scene.another()
    scene.bench.found["0"] = None
    scene.calibrations.refresh()
    scene.pass_time(PATIENCE)
    assert scene.calibrations.holds(other)


def test_a_calibration_that_fails_is_tried_again_later_and_takes_nothing_out(scene: Scene) -> None:
    scene.bench.found["0"] = LaunchError("no CUDA today")
    scene.calibrations.refresh()
    scene.calibrations.refresh()
    assert len(scene.bench.measured) == 1
    assert outages(scene.db, now=scene.clock()) == []
    scene.bench.found["0"] = make_calibration()
    scene.pass_time(RETRY)
    assert len(calibrations.newest(scene.db)) == 1


def test_a_canary_that_has_drifted_takes_the_gpu_out_and_says_why(scene: Scene) -> None:
    scene.calibrations.refresh()
    scene.bench.found["0"] = make_calibration(106.0)
    scene.pass_time(SIX_HOURS)
    (fault,) = outages(scene.db, now=scene.clock())
    assert (fault.machine, fault.gpu, fault.device) == ("here", "0", "H100")
    assert fault.reason == (
        "GPU 0: the canary took 0.1 us, +6.0% from its rolling median of 0.1 us; +5.0% is allowed"
    )
    (record,) = calibrations.newest(scene.db)
    assert not record.fits


def test_processes_that_differ_on_one_gpu_widen_what_is_allowed(scene: Scene) -> None:
    for canary_ns in (100.0, 101.5, 100.0, 102.0, 98.5, 101.0, 100.0, 102.5):
        scene.canary(canary_ns)
    assert scene.canary(106.5)[1] is None
    assert scene.canary(113.0)[1] is not None
    assert scene.canary(80.0)[1] is None


def test_a_drifted_canary_does_not_move_the_median(scene: Scene) -> None:
    for canary_ns in (100.0, 101.0, 99.5, 120.0):
        scene.canary(canary_ns)
    assert scene.median() == 100.0


def test_a_slow_change_is_followed(scene: Scene) -> None:
    for step in range(100):
        assert scene.canary(100.0 + step * 0.06)[1] is None
    assert scene.median() == pytest.approx(104.47, abs=0.06)


@pytest.mark.parametrize("change", [{"driver": "590.2"}, {"torch": "2.12"}, {"device_name": "NVIDIA H200"}])
def test_another_driver_or_device_makes_a_fresh_start(scene: Scene, change) -> None:
    scene.canary(100.0)
    record, unfit = scene.canary(130.0, **change)
    assert (record.fresh, record.fits, unfit, scene.median()) == (True, True, None, 130.0)


def test_an_operator_who_vouches_for_a_gpu_makes_a_fresh_start(scene: Scene) -> None:
    scene.calibrations.refresh()
    scene.bench.found["0"] = make_calibration(110.0)
    scene.pass_time(SIX_HOURS)
    scene.clock.advance(1)
    bring_back(scene.db, "H100", now=scene.clock())
    assert scene.median() is None
    scene.pass_time(PUBLISH_EVERY)
    assert scene.bench.facts["H100", "0"].canary_ns == 0.0
    assert scene.canary(110.0)[1] is None
    assert scene.median() == 110.0


def test_jobs_are_not_told_of_what_a_gpu_could_do_while_it_had_drifted(scene: Scene) -> None:
    """Else an honest kernel would be below the floor of a slower device once the GPU is back."""
    scene.calibrations.refresh()
    scene.bench.found["0"] = make_calibration(115.0, copy_bytes_per_s=2.4e12, read_bytes_per_s=2.5e12)
    scene.pass_time(SIX_HOURS)
    assert outages(scene.db, now=scene.clock())
    scene.pass_time(PUBLISH_EVERY)
    assert scene.bench.facts["H100", "0"].copy_bytes_per_s == make_calibration().bandwidth
    # Somebody who vouches for it says that this is how it is.
    bring_back(scene.db, "H100", now=scene.clock())
    scene.pass_time(PUBLISH_EVERY)
    assert scene.bench.facts["H100", "0"].copy_bytes_per_s == 2.5e12


def test_a_processor_that_drifts_is_marked_and_stays_in_service(scene: Scene) -> None:
    cpu = make_device(name="cpu", backend=Backend.CPU)
    scene.devices = [cpu]
    scene.bench.found[""] = make_calibration(100.0, backend=Backend.CPU, canary_spread=0.05)
    mine = scene.another()
    mine.refresh()
    scene.bench.found[""] = make_calibration(131.0, backend=Backend.CPU, canary_spread=0.05)
    scene.clock.advance(SIX_HOURS.total_seconds())
    mine.refresh()
    (record,) = calibrations.newest(scene.db)
    assert (record.gpu, record.fits) == ("", False)
    assert outages(scene.db, now=scene.clock()) == []


def test_a_processor_has_no_floor_because_what_was_measured_bounds_nothing(scene: Scene) -> None:
    scene.devices = [make_device(name="cpu", backend=Backend.CPU)]
    scene.bench.found[""] = make_calibration(100.0, backend=Backend.CPU, matrix_flops_per_s={"fp32": 3.5e8})
    mine = scene.another()
    mine.refresh()
    mine.refresh()
    facts = scene.bench.facts["cpu", ""]
    assert facts.canary_ns == 100.0
    assert floor.floor_ns(Work(bytes=1e9, flops=1e12, precision="fp32"), facts) is None


def test_devices_of_two_machines_do_not_mix(scene: Scene) -> None:
    scene.canary(100.0)
    calibrations.store(
        scene.db, make_calibration(200.0), machine="there", gpu="0", device="H100", now=scene.clock()
    )
    assert scene.median() == 100.0
    assert [record.machine for record in calibrations.newest(scene.db)] == ["here", "there"]


def run_job(scene: Scene, canary_ns: float) -> int:
    """Judge one submission on a calibrated device, and return the number of its run."""
    make_board(scene.db, devices=["H100"], name=f"b{canary_ns:g}")
    submission = make_submission(scene.db, devices=["H100"], board=f"b{canary_ns:g}")
    scene.bench.outcomes = [make_report(calibration=Calibration(canary_ns=canary_ns))]
    scene.another(every=None).refresh()
    dispatcher = Dispatcher(scene.db, devices=[H100], launchers={"fake": scene.bench}, clock=scene.clock)
    dispatcher._calibrations._book._machine = "here"
    dispatcher.run_until_idle()
    (view,) = show_submission(scene.db, submission.id).jobs
    assert view.run is not None
    return view.counted.id


def test_a_run_is_linked_to_the_calibration_in_force_and_its_canary_counts(scene: Scene) -> None:
    scene.canary(100.0)
    record, _ = scene.canary(100.0)
    run_id = run_job(scene, canary_ns=101.0)
    assert scene.bench.specs[-1].device is not None
    with scene.db.read() as session:
        assert session.scalar(select(RunRow.calibration_id).where(RunRow.id == run_id)) == record.id
    run_job(scene, canary_ns=101.5)
    assert scene.median() == pytest.approx(100.5)


def test_a_run_without_a_calibration_is_linked_to_none(scene: Scene) -> None:
    run_id = run_job(scene, canary_ns=100.0)
    with scene.db.read() as session:
        assert session.scalar(select(RunRow.calibration_id).where(RunRow.id == run_id)) is None


def test_a_dispatcher_that_is_told_to_stop_ends_its_calibration(scene: Scene) -> None:
    begun = threading.Event()

    def wait(device: Device, gpu: str, *, cancelled: threading.Event) -> None:
        begun.set()
        assert cancelled.wait(30)

    scene.bench.calibrate = wait  # type: ignore[method-assign,assignment]
    book = DatabaseBook(scene.db, clock=scene.clock, machine="here")
    mine = Calibrations(book, [H100], {"fake": scene.bench}, clock=scene.clock, every=SIX_HOURS)
    mine.start()
    mine.refresh()
    assert begun.wait(30)
    mine.stop()
    assert calibrations.newest(scene.db) == []


def noise(scene: Scene, canaries: list[float], **changes: Any) -> float:
    """Return what jobs are told of the device's noise after such canaries."""
    for canary_ns in canaries:
        scene.canary(canary_ns, **changes)
    scene.another(every=None).refresh()
    (facts,) = scene.bench.facts.values()
    return facts.noise_share


def test_jobs_are_told_how_much_their_device_differs_between_runs_once_there_were_several(
    scene: Scene,
) -> None:
    assert noise(scene, [99.5, 100.5]) == 0.0
    assert noise(scene, [99.5, 100.5] * 9) == pytest.approx(0.005 / 0.6745, rel=0.01)
