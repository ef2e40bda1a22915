"""Kinds of devices: what the harness asks of each, where the machine has no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelcup_harness.device import accelerators, machine
from kernelcup_harness.device.port import NoGauge
from kernelcup_harness.protocol import Backend

WITHOUT_GPU = (Backend.CPU, Backend.EMULATED)


@pytest.mark.parametrize("backend", WITHOUT_GPU)
def test_a_device_that_is_the_processor_has_nothing_of_its_own(backend: Backend) -> None:
    device = accelerators.of(backend)
    assert device.is_here()
    assert device.sandbox_trouble() == ""
    assert device.nodes({"CUDA_VISIBLE_DEVICES": "0"}) is None
    assert device.memory() is None
    assert device.state() == {}
    assert isinstance(device.gauge(), NoGauge)


def test_the_emulated_device_says_that_it_is_emulated() -> None:
    name = f"emulated on {machine.processor_name()}"
    assert accelerators.of(Backend.EMULATED).describe() == {"device": name}
    assert accelerators.of(Backend.EMULATED).describe_without_torch() == {"gpu": {}, "device": name}
    assert accelerators.of(Backend.CPU).describe_without_torch() == {"gpu": {}}


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_stops_no_process() -> None:
    device = accelerators.of(Backend.CUDA)
    device.start()
    assert not device.is_here()
    assert device.sandbox_trouble() == ""
    assert device.describe_without_torch() == {"gpu": {}}
    assert isinstance(device.gauge(), NoGauge)


def test_the_kind_of_a_process_is_in_its_environment_and_brings_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = (
        "import sys; from kernelcup_harness.device import accelerators; print(type(accelerators.here()).__name__,"
        " [name for name in sys.modules if name == 'torch' or name.startswith('kernelcup_harness.device.nvidia')])"
    )
    for backend, kind in (("cpu", "Cpu"), ("emulated", "Emulated")):
        monkeypatch.setenv("KERNELCUP_BACKEND", backend)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == f"{kind} []\n"
