"""The calibration of a processor with small sizes, of a GPU's parts with what stands in for its clock."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from inside import small_canary

from kernelcup_harness import __main__ as harness
from kernelcup_harness.device import calibration, stopwatch
from kernelcup_harness.device.calibration import RESTS_S, check_canary
from kernelcup_harness.protocol import Backend, DeviceFacts, Precision, from_json
from kernelcup_harness.protocol.calibration import DeviceCalibration, drift, fits, relative_spread, tolerance


def test_a_processor_is_calibrated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(calibration.LARGE_BYTES, Backend.CPU, 1 << 16)
    monkeypatch.setitem(calibration.MATRIX_SIZES, Backend.CPU, (16, 32))
    with small_canary():
        assert harness.calibrate(Backend.CPU) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = from_json(DeviceCalibration, json.loads(line)["calibration"])
    assert (found.backend, set(found.matrix_flops_per_s)) == (Backend.CPU, {"fp32", "fp64"})
    measured = [found.copy_bytes_per_s, found.read_bytes_per_s, *found.matrix_flops_per_s.values()]
    measured += [found.canary_ns, found.empty_kernel_ns]
    assert all(math.isfinite(each) and each > 0 for each in measured)
    assert (found.empty_pair_ns, found.l2_bytes, found.clocks_mhz) == (0.0, 0, {})
    assert found.device_name
    assert found.tolerance >= 0.02


def test_an_emulated_device_has_nothing_to_calibrate() -> None:
    command = [sys.executable, "-P", "-m", "kernelcup_harness", "--calibrate", "emulated"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no times" in done.stderr
    with pytest.raises(ValueError, match="no times"):
        calibration.canary_ns(Backend.EMULATED)


class Beats:
    """A stopwatch whose calls take what a list says."""

    def __init__(self, *times_ns: float) -> None:
        self.times = list(times_ns)
        self.calls = 0

    def times_ns(self, call: Callable[[], Any], count: int) -> list[float]:
        self.calls += count
        return [self.times.pop(0) for _ in range(count)]

    def settle(self) -> None:
        pass


def test_rates_are_of_the_best_try_after_two_that_do_not_count() -> None:
    watch = Beats(1.0, 1.0, 30.0, 20.0, 25.0)
    assert stopwatch.best_ns(watch, lambda: None, 3) == 20.0
    assert watch.times == []


def test_a_precision_that_the_device_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def product(backend: Backend, precision: str, side: int) -> Any:
        if precision in ("fp8", "fp4", "tf32"):
            raise RuntimeError("not on this device")
        return nullcontext(lambda: None)

    monkeypatch.setattr(calibration, "product_of", product)
    monkeypatch.setattr(calibration, "best_ns", lambda watch, call, tries: 1e6)
    rates = calibration.matrix_rates(Backend.CUDA, Beats())
    assert set(rates) == {"fp64", "fp32", "fp16", "bf16", "int8"}
    # The best of the sizes.
    assert rates["fp16"] == 2 * 8192**3 / 1e-3


@pytest.mark.parametrize("precision", ["fp8", "fp4", "int8"])
def test_a_processor_has_no_short_precision(precision: str) -> None:
    with pytest.raises(NotImplementedError), calibration.product_of(Backend.CPU, Precision(precision), 64):
        pass


def test_a_size_that_would_take_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sides: list[int] = []

    def product(backend: Backend, precision: str, side: int) -> Any:
        sides.append(side)
        return nullcontext(lambda: None)

    monkeypatch.setattr(calibration, "product_of", product)
    # 0.25 Tflop/s, as fp64 on a T4.
    monkeypatch.setattr(calibration, "best_ns", lambda watch, call, tries: 2 * sides[-1] ** 3 / 250)
    rates = calibration.matrix_rates(Backend.CUDA, Beats())
    assert list(rates.values()) == pytest.approx([2.5e11] * len(rates))
    assert set(sides) == {1024}


def facts(**changes: Any) -> DeviceFacts:
    return DeviceFacts(**{"copy_bytes_per_s": 1e12, "canary_ns": 100.0, **changes})


class Canaries:
    """Canaries in turn, and how long was rested between them."""

    def __init__(self, *times_ns: float) -> None:
        self.times = list(times_ns)
        self.rests: list[float] = []

    def check(self, backend: Backend, known: DeviceFacts | None) -> calibration.CanaryCheck:
        return check_canary(backend, known, wait=self.rests.append, measure=lambda _: self.times.pop(0))


@pytest.mark.parametrize("time_ns", [105.0, 80.0])
def test_a_canary_that_is_five_percent_slower_or_any_faster_is_taken_once(time_ns: float) -> None:
    canaries = Canaries(time_ns)
    found = canaries.check(Backend.CUDA, facts())
    assert (found.canary_ns, found.first_ns, found.fits, canaries.rests) == (time_ns, time_ns, True, [])


def test_a_canary_of_two_states_is_never_refused() -> None:
    # As on an H200: process by process, while the times of submissions did not move.
    states = (58.2, 59.9, 60.3, 62.3)
    for expected in states:
        spread = relative_spread(states)
        allowed = tolerance(Backend.CUDA, spread)
        assert all(fits(each, expected, allowed) for each in states)


def test_the_canary_of_a_gpu_is_the_best_of_several_places(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [60.0, 58.0, 62.0, 59.0]
    monkeypatch.setattr(calibration, "elsewhere", lambda _backend: nullcontext())
    monkeypatch.setattr(calibration, "canary_here_ns", lambda _backend: times.pop())
    assert calibration.canary_ns(Backend.CUDA) == 58.0
    assert not times


def test_one_that_does_not_fit_is_taken_again_after_a_rest() -> None:
    canaries = Canaries(106.0, 100.5)
    found = canaries.check(Backend.CUDA, facts())
    assert (found.canary_ns, found.first_ns, found.fits) == (100.5, 106.0, True)
    assert canaries.rests == [RESTS_S[0]]


def test_one_that_never_fits_rests_for_longer_and_longer_but_for_a_processor() -> None:
    canaries = Canaries(106.0, 110.0, 105.5, 106.0)
    assert not canaries.check(Backend.CUDA, facts()).fits
    assert canaries.rests == [*RESTS_S] == sorted(RESTS_S)
    canaries = Canaries(150.0)
    assert not canaries.check(Backend.CPU, facts(canary_tolerance=0.3)).fits
    assert canaries.rests == []


def test_without_an_expectation_every_canary_fits() -> None:
    assert Canaries(5.0).check(Backend.CUDA, None).fits
    assert Canaries(5.0).check(Backend.CUDA, facts(canary_ns=0.0)).fits


def test_drift_is_told_in_both_directions() -> None:
    assert drift(105.0, 100.0) == pytest.approx(0.05)
    assert drift(95.0, 100.0) == pytest.approx(-0.05)
    assert not fits(102.1, 100.0, 0.02)
    assert fits(101.9, 100.0, 0.02)
    assert fits(50.0, 100.0, 0.02)


def test_the_spread_does_not_mind_one_outlier() -> None:
    assert relative_spread([100, 101, 99, 100, 1000]) == pytest.approx(0.01 / 0.6745)
    assert relative_spread([100]) == 0.0


def made(**changes: Any) -> DeviceCalibration:
    values = {
        "backend": Backend.CUDA,
        "device_name": "H100",
        "at": "2026-01-01T00:00:00+00:00",
        "copy_bytes_per_s": 2.0e12,
        "read_bytes_per_s": 2.5e12,
        "canary_ns": 100.0,
    }
    return DeviceCalibration(**(values | changes))


def test_a_gpu_is_held_to_five_percent_or_its_spread_and_a_processor_to_its_own_spread() -> None:
    assert made().tolerance == 0.05
    assert made(canary_spread=0.012).tolerance == pytest.approx(0.072)
    assert made(canary_spread=0.5).tolerance == 0.10
    assert made(backend=Backend.CPU, canary_spread=0.05).tolerance == pytest.approx(0.3)
    assert made(backend=Backend.CPU).tolerance == 0.02
    assert made().bandwidth == 2.5e12


def test_a_calibration_of_a_gpu_says_whether_counters_can_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def calibrated(backend: Backend) -> DeviceCalibration:
        rates = {"copy_bytes_per_s": 1e12, "read_bytes_per_s": 1e12, "canary_ns": 100.0}
        return DeviceCalibration(backend=backend, device_name="fake", at="", **rates)

    answers = [b'{"counters":"locked"}', b'{"counters":""}', b"", b'{"counters":"never asked"}']
    monkeypatch.setattr(calibration, "calibrate", calibrated)
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, stdout=answers.pop(0))
    )
    for backend in (Backend.CUDA, Backend.CUDA, Backend.CUDA, Backend.CPU):
        assert harness.calibrate(backend) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["calibration"]["no_counters"] for each in lines] == ["locked", "", None, None]
