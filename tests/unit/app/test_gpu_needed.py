"""CUDA C++ goes only to devices that can run it."""

from __future__ import annotations

import pytest

from kernelcup.app.submissions.admission import check_gpu
from kernelcup.domain import Device
from kernelcup.errors import GpuNeeded
from kernelcup_harness.protocol import Backend

KNOWN = (
    Device(name="H100", backend=Backend.CUDA),
    Device(name="emulated", backend=Backend.EMULATED),
    Device(name="cpu", backend=Backend.CPU),
)


@pytest.mark.parametrize("names", [["emulated"], ["H100", "cpu"]])
@pytest.mark.parametrize("entry", ["submission.cu", "kernels/Main.CUH"])
def test_cuda_is_refused_by_code_where_no_gpu_is(entry: str, names: list[str]) -> None:
    with pytest.raises(GpuNeeded, match="`kernelcup run` compiles it without one") as error:
        check_gpu(entry, names, KNOWN)
    assert error.value.code == "gpu_needed"


@pytest.mark.parametrize(
    ("entry", "names", "known"),
    [
        ("submission.cu", ["H100"], KNOWN),
        ("submission.py", ["emulated"], KNOWN),
        ("submission.cpp", ["cpu"], KNOWN),
        ("submission.cu", ["MI300"], KNOWN),
        ("submission.cu", ["emulated"], ()),
    ],
)
def test_anything_else_is_taken(entry: str, names: list[str], known: tuple[Device, ...]) -> None:
    check_gpu(entry, names, known)
