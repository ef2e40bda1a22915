"""Measuring in a child process, and comparing canaries."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from builders import make_device, make_report, make_spec
from fakes import FakeGpuProbe
from kernelcup.errors import BadReport, LaunchCancelled, LaunchTimeout, UnfitDevice
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.gpu_health.checks import Hygiene
from kernelcup.launchers.gpu_health.probe import GpuProcess, GpuReading
from kernelcup.launchers.local.calibrate import COOL_DOWN_S, Bench
from kernelcup.launchers.local.gpu_locks import Slots
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.protocol import Backend, Calibration, DeviceFacts, Mode, dumps
from kernelcup_harness.protocol.calibration import DeviceCalibration

H100 = make_device(slots=2)
CPU = make_device(name="cpu", backend=Backend.CPU)
FACTS = DeviceFacts(copy_bytes_per_s=1e12, canary_ns=100.0, calibration_id="7")


def made(canary_ns: float, backend: Backend = Backend.CUDA) -> DeviceCalibration:
    return DeviceCalibration(
        backend=backend,
        device_name="x",
        at="2026-01-01T00:00:00+00:00",
        copy_bytes_per_s=1e12,
        read_bytes_per_s=1e12,
        canary_ns=canary_ns,
    )


class Scene:
    """A bench whose harness answers in turn with canaries."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rests: list[float] = []
        self.bench = Bench(command=self.command(), rest=self.rest, limit_s=60)

    def command(self) -> tuple[str, ...]:
        code = (
            "import os, sys, pathlib\n"
            f"answers = sorted(pathlib.Path({str(self.folder)!r}).glob('*.json'))\n"
            "sys.stdout.write('a line before\\n' + answers[0].read_text())\n"
            "answers[0].unlink()\n"
        )
        return (sys.executable, "-c", code)

    def rest(self, _cancelled: threading.Event, seconds: float) -> bool:
        self.rests.append(seconds)
        return False

    def answers(self, *canaries: float, backend: Backend = Backend.CUDA) -> None:
        for number, canary_ns in enumerate(canaries):
            line = '{"calibration": ' + dumps(made(canary_ns, backend)) + "}\n"
            (self.folder / f"{number}.json").write_text(line)

    def measure(self, device=H100, gpu: str = "0", bench: Bench | None = None, **options: Any):
        values = {"environ": os.environ, "keep": (), "cancelled": threading.Event(), **options}
        return (bench or self.bench).measure(device, gpu, **values)

    def check(self, canary_ns: float, *, job_id: str = "1.1", spec=None) -> None:
        spec = spec or make_spec(backend=Backend.CUDA, device=FACTS, job_id=job_id)
        report = make_report(calibration=Calibration(canary_ns=canary_ns))
        self.bench.check(spec, report, H100, ("0",))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_last_line_of_the_harness_is_the_calibration(scene: Scene) -> None:
    scene.answers(100.0)
    assert scene.measure() == made(100.0)
    assert scene.rests == []


def test_a_canary_that_does_not_fit_is_taken_once_more_after_a_rest(scene: Scene) -> None:
    scene.bench.use({("H100", "0"): FACTS})
    scene.answers(110.0, 101.0)
    assert scene.measure().canary_ns == 101.0
    assert scene.rests == [COOL_DOWN_S]
    scene.bench.look_again("0", environ=os.environ, keep=())


def test_the_second_one_counts_and_the_gpu_must_do_better_to_come_back(scene: Scene) -> None:
    scene.bench.use({("H100", "0"): FACTS})
    scene.answers(110.0, 111.0)
    assert scene.measure().canary_ns == 111.0
    scene.answers(112.0)
    with pytest.raises(UnfitDevice, match=r"\+12.0% from its rolling median") as caught:
        scene.bench.look_again("0", environ=os.environ, keep=())
    assert caught.value.gpus == ("0",)
    scene.answers(100.0)
    scene.bench.look_again("0", environ=os.environ, keep=())
    # With nothing left to answer, it would fail if it measured again.
    scene.bench.look_again("0", environ=os.environ, keep=())


def test_a_processor_is_measured_once_whatever_comes(scene: Scene) -> None:
    scene.bench.use({("cpu", ""): FACTS})
    scene.answers(200.0, backend=Backend.CPU)
    assert scene.measure(CPU, "").canary_ns == 200.0
    assert scene.rests == []


def test_who_is_vouched_for_is_compared_with_nothing(scene: Scene) -> None:
    scene.bench.use({("H100", "0"): FACTS, ("H100", "1"): FACTS})
    scene.answers(110.0, 110.0)
    scene.measure()
    scene.bench.forget(frozenset({"0"}))
    scene.bench.look_again("0", environ=os.environ, keep=())
    equipped = [scene.bench.equip(make_spec(), H100, [gpu]).device for gpu in ("0", "1")]
    assert equipped == [dataclasses.replace(FACTS, canary_ns=0.0), FACTS]


def test_a_harness_that_says_nothing_is_told_with_its_log() -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no CUDA today')")
    with pytest.raises(BadReport, match="ended with 1 and no figures: no CUDA today"):
        Scene(Path()).measure(bench=Bench(command=command))


def test_a_calibration_ends_with_its_dispatcher() -> None:
    cancelled = threading.Event()
    cancelled.set()
    slow = (sys.executable, "-c", "import time; time.sleep(600)")
    with pytest.raises(LaunchCancelled):
        Scene(Path()).measure(bench=Bench(command=slow), cancelled=cancelled)


def test_one_that_hangs_is_ended() -> None:
    slow = (sys.executable, "-c", "import time; time.sleep(600)")
    with pytest.raises(LaunchTimeout):
        Scene(Path()).measure(bench=Bench(command=slow, limit_s=0.01))


def test_a_job_whose_canary_fits_counts(scene: Scene) -> None:
    scene.check(102.0)
    scene.check(98.0)


def test_one_whose_canary_has_drifted_waits_again_unharmed(scene: Scene) -> None:
    with pytest.raises(UnfitDevice, match="GPU 0 before the job: the canary took") as caught:
        scene.check(106.0)
    assert (caught.value.gpus, caught.value.spoils) == (("0",), False)


def test_the_same_job_a_second_time_uses_up_an_attempt(scene: Scene) -> None:
    for job_id, spoils in (("1.1", False), ("2.1", False), ("1.1", True)):
        with pytest.raises(UnfitDevice) as caught:
            scene.check(106.0, job_id=job_id)
        assert caught.value.spoils is spoils


@pytest.mark.parametrize(
    "changes",
    [
        {"backend": Backend.CPU},
        {"device": None},
        {"device": dataclasses.replace(FACTS, canary_ns=0.0)},
        {"device": dataclasses.replace(FACTS, canary_tolerance=0.5)},
    ],
)
def test_where_nothing_is_expected_nothing_has_drifted(scene: Scene, changes) -> None:
    scene.check(110.0, spec=make_spec(**{"backend": Backend.CUDA, "device": FACTS, **changes}))


def test_a_report_without_a_canary_is_let_pass(scene: Scene) -> None:
    scene.check(0.0)
    spec = make_spec(backend=Backend.CUDA, device=FACTS)
    scene.bench.check(spec, make_report(), H100, ("0",))


def test_a_launcher_calibrates_each_of_its_gpus_and_leaves_busy_ones_alone(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    scene = Scene(tmp_path / "answers")
    launcher = LocalLauncher(
        runtime_dir=tmp_path / "run",
        environ=os.environ,
        gpus={"H100": ("0", "1")},
        bench=scene.bench,
        command=(sys.executable, "-c", ""),
    )
    assert (launcher.places(H100), launcher.places(CPU)) == (("0", "1"), ("",))
    scene.answers(100.0, 100.0)
    others = Slots(tmp_path / "run", {})
    held = others.try_gpu("0")
    assert held is not None
    cancelled = threading.Event()
    assert launcher.calibrate(H100, "0", cancelled=cancelled) is None
    held.release()
    assert launcher.calibrate(H100, "0", cancelled=cancelled) == made(100.0)
    assert launcher.calibrate(CPU, "", cancelled=cancelled) == made(100.0)
    assert launcher.capacity(H100) == 2


def harness_that_reports(canary_ns: float, after: Path | None = None) -> tuple[str, ...]:
    """Return a stand-in for the harness whose job had this canary; it reports once a file is there."""
    report = make_report(calibration=Calibration(canary_ns=canary_ns))
    line = '{"report":' + dumps(report) + "}"
    code = "import os, sys, time; sys.stdin.read()\n"
    if after is not None:
        code += f"while not os.path.exists({str(after)!r}): time.sleep(0.01)\n"
    return (sys.executable, "-c", f"{code}print({line!r}, flush=True)")


def run(launcher: LocalLauncher) -> LaunchResult:
    spec = make_spec(backend=Backend.CUDA, mode=Mode.LEADERBOARD)
    return launcher.run(spec, H100, on_event=lambda _: None, cancelled=threading.Event())


def launcher_with(tmp_path: Path, command: tuple[str, ...], **options: Any) -> LocalLauncher:
    launcher = LocalLauncher(
        runtime_dir=tmp_path, environ=os.environ, gpus={"H100": ("0", "1")}, command=command, **options
    )
    launcher.use_facts({("H100", "0"): FACTS, ("H100", "1"): FACTS})
    return launcher


def test_a_job_is_told_what_its_gpu_can_do_and_the_result_says_so(tmp_path: Path) -> None:
    assert run(launcher_with(tmp_path, harness_that_reports(101.0))).facts == FACTS


def test_a_launcher_throws_away_what_a_drifted_gpu_measured_and_takes_the_next(tmp_path: Path) -> None:
    launcher = launcher_with(tmp_path, harness_that_reports(106.0))
    with pytest.raises(UnfitDevice, match=r"GPU 0 before the job: the canary took .* \+6.0%") as caught:
        run(launcher)
    assert not caught.value.spoils
    assert launcher.capacity(H100) == 1
    with pytest.raises(UnfitDevice, match="GPU 1 before the job"):
        run(launcher)
    assert launcher.capacity(H100) == 0


def noted(seen: Path) -> bool:
    """Return whether a job runs meanwhile, and leave a file for its harness."""
    if watched := threading.current_thread() is not threading.main_thread():
        seen.touch()
    return watched


def test_a_stranger_during_a_job_spoils_it_although_it_was_gone_at_its_end(tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    class Visited(FakeGpuProbe):
        """Alone when it is asked from outside, with a stranger when it is asked meanwhile."""

        def read(self, gpus: Any) -> list[GpuReading]:
            watched = noted(seen)
            # The parent of the tests is no process of ours.
            stranger = GpuProcess(pid=os.getppid(), name="stranger")
            return [
                dataclasses.replace(each, processes=(stranger,) if watched else ())
                for each in super().read(gpus)
            ]

    command = harness_that_reports(100.0, after=seen)
    launcher = launcher_with(tmp_path, command, hygiene=Hygiene(Visited("0", "1")))
    with pytest.raises(UnfitDevice, match="GPU 0 during the job: used by process") as caught:
        run(launcher)
    assert caught.value.spoils
    assert launcher.capacity(H100) == 1


def test_heat_during_a_job_is_in_its_report(tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    class Hot(FakeGpuProbe):
        def read(self, gpus: Any) -> list[GpuReading]:
            watched = noted(seen)
            return [
                dataclasses.replace(each, clock_reasons=0x20 if watched else 0, temperature_c=83)
                for each in super().read(gpus)
            ]

    command = harness_that_reports(100.0, after=seen)
    result = run(launcher_with(tmp_path, command, hygiene=Hygiene(Hot("0", "1"))))
    watch = result.report.environment["gpu_watch"]
    assert (watch["slowed_down"], watch["hottest_c"]) == (["0"], 83)
