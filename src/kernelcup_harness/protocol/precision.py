"""Precisions of arithmetic."""

from __future__ import annotations

from enum import StrEnum


class Precision(StrEnum):
    """Precisions for which a calibration may have a matrix rate."""

    FP64 = "fp64"
    FP32 = "fp32"
    """Without TF32."""
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    FP4 = "fp4"
    """With block scales."""
    INT8 = "int8"
