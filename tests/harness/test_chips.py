"""Chips that are not here: peaks in place of rates, references that need them, launches that only they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.explain import chips
from kernelcup_harness.protocol import CheckStyle, Precision, peaks

NVFP4 = "a = torch.empty(2, dtype=torch.float4_e2m1fn_x2)\n"


@pytest.mark.parametrize(
    ("error", "source", "there", "said"),
    [
        (
            "only supported on compute capability >= 10.0",
            "",
            (9, 0),
            "capability 10.0 (Blackwell); this device has 9.0",
        ),
        ("CUBLAS_STATUS_NOT_SUPPORTED", NVFP4, (9, 0), "capability 10.0 (Blackwell); this device has 9.0"),
        ('"mm" not implemented', NVFP4, None, "capability 10.0 (Blackwell); there is no GPU here"),
        ("tcgen05 needs sm_100a, sm_103a", "", (9, 0), "capability 10.0 (Blackwell)"),
        ("compute capability 9.0", "", (8, 0), "capability 9.0 (Hopper); this device has 8.0"),
    ],
)
def test_a_reference_for_another_chip_says_which(
    error: str, source: str, there: tuple[int, int] | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chips, "capability", lambda: there)
    assert said in chips.missing(error, source)


@pytest.mark.parametrize(
    ("error", "source", "there"),
    [
        ("expected 3 values", "", (9, 0)),
        ("expected 3 values", NVFP4, (10, 0)),
        ("out of memory on compute capability 9.0", "", (9, 0)),
        ("expected 3 values", "", None),
    ],
)
def test_another_fault_of_a_reference_names_no_chip(
    error: str, source: str, there: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chips, "capability", lambda: there)
    assert chips.missing(error, source) == ""


def test_a_block_scaled_reference_on_a_machine_without_a_gpu_needs_blackwell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELCUP_BACKEND", "emulated")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "nvfp4_reference.py").write_text(
        "import torch\n"
        "def generate_input(n):\n"
        "    return torch.zeros(n, n // 2, dtype=torch.uint8)\n"
        "def ref_kernel(data):\n"
        "    packed = data.view(torch.float4_e2m1fn_x2)\n"
        "    return packed @ packed.t()\n"
        "def check_implementation(data, output):\n"
        "    return ''\n"
    )
    task = TaskCode("nvfp4_reference", CheckStyle.DATA_OUTPUT, tmp_path, lacks=chips.missing)
    with pytest.raises(
        TaskFault, match=r"^this reference needs compute capability 10.0 \(Blackwell\); there is no GPU"
    ):
        task.expected(task.generate({"n": 32}, 1))


def test_a_peak_fills_in_for_a_precision_that_was_not_measured() -> None:
    found = peaks.rates("NVIDIA B200", {"fp8": 3.9e15})
    assert (found["fp8"], found["fp4"]) == (3.9e15, 1e16)
    assert peaks.rates("NVIDIA H200", {"fp8": 1.5e15}) == {"fp8": 1.5e15}


@pytest.mark.parametrize(
    ("name", "fp8"),
    [
        ("NVIDIA B300 SXM6 AC", 5_000),
        ("NVIDIA GB200", 5_000),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 1_008),
        ("AMD Instinct MI300X", 2_614.9),
        ("AMD Instinct MI355X", 5_033),
    ],
)
def test_a_chip_is_found_by_the_name_that_its_driver_gives_it(name: str, fp8: float) -> None:
    assert peaks.rates(name, {})["fp8"] == fp8 * 1e12


def test_every_peak_has_a_source_and_no_precision_is_faster_than_a_shorter_one() -> None:
    order = (Precision.FP64, Precision.TF32, Precision.FP16, Precision.FP8, Precision.FP4)
    for chip in peaks.chips():
        known = [chip.tera_a_second[each] for each in order if each in chip.tera_a_second]
        assert chip.source
        assert known == sorted(known)
