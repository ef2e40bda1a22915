"""Published peaks of chips for precisions that a calibration could not measure. Nothing here was measured by us.

Dense operations a second, of the fastest variant that is sold under a name: a floor has to be a lower bound for all of
them. A measured rate goes before a published one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup_harness.protocol.enums import Precision

TERA = 1e12


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """A kind of GPU, as its maker describes it."""

    names: tuple[str, ...]
    """Words of which one is in the name that the driver gives it."""
    tera_a_second: dict[Precision, float]
    """Tera operations a second, dense."""
    source: str


CHIPS = (
    Chip(
        names=("B300", "GB300"),
        tera_a_second={
            Precision.FP64: 1.4,
            Precision.TF32: 1_250,
            Precision.FP16: 2_500,
            Precision.BF16: 2_500,
            Precision.FP8: 5_000,
            Precision.FP4: 15_000,
            Precision.INT8: 330,
        },
        source="NVIDIA, GB300 NVL72, specifications: figures of the rack, a 72nd, without sparsity",
    ),
    Chip(
        names=("B200", "GB200"),
        tera_a_second={
            Precision.FP64: 45,
            Precision.TF32: 1_250,
            Precision.FP16: 2_500,
            Precision.BF16: 2_500,
            Precision.FP8: 5_000,
            Precision.FP4: 10_000,
            Precision.INT8: 5_000,
        },
        source="NVIDIA, Blackwell Architecture Technical Brief: GB200, a GPU at 1,200 W, without sparsity",
    ),
    Chip(
        names=("RTX PRO 6000 Blackwell",),
        tera_a_second={
            Precision.FP64: 1.97,
            Precision.TF32: 252,
            Precision.FP16: 504,
            Precision.BF16: 504,
            Precision.FP8: 1_008,
            Precision.FP4: 2_015,
            Precision.INT8: 1_008,
        },
        source="NVIDIA, RTX Blackwell PRO GPU Architecture: Workstation Edition, without sparsity",
    ),
    Chip(
        names=("MI355X",),
        tera_a_second={
            Precision.FP64: 78.6,
            Precision.FP16: 2_517,
            Precision.BF16: 2_517,
            Precision.FP8: 5_033,
            Precision.FP4: 10_066,
            Precision.INT8: 5_033,
        },
        source="AMD, Instinct MI355X GPU data sheet, without sparsity",
    ),
    Chip(
        names=("MI300X",),
        tera_a_second={
            Precision.FP64: 163.4,
            Precision.FP32: 163.4,
            Precision.TF32: 653.7,
            Precision.FP16: 1_307.4,
            Precision.BF16: 1_307.4,
            Precision.FP8: 2_614.9,
            Precision.INT8: 2_614.9,
        },
        source="AMD, Instinct MI300X Accelerator data sheet, without sparsity",
    ),
)


def rates(device_name: str, measured: dict[str, float]) -> dict[str, float]:
    """Return operations a second by precision: the measured rates, and published peaks where there is none."""
    found = next((chip for chip in CHIPS if any(name in device_name for name in chip.names)), None)
    published = {} if found is None else found.tera_a_second
    return {each.value: rate * TERA for each, rate in published.items()} | measured
