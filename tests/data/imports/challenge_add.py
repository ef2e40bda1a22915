import ctypes
from typing import Any

import torch
from core.challenge_base import ChallengeBase


class Challenge(ChallengeBase):
    """Adds two vectors."""

    def __init__(self):
        super().__init__(name="Add", atol=1e-5, rtol=1e-5)

    def reference_impl(self, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor, N: int):
        torch.add(A, B, out=C)

    def get_solve_signature(self) -> dict[str, tuple]:
        return {"A": (ctypes.POINTER(ctypes.c_float), "in"), "N": (ctypes.c_int, "in")}

    def generate_functional_test(self) -> list[dict[str, Any]]:
        return [
            {"A": torch.rand(size), "B": torch.rand(size), "C": torch.zeros(size), "N": size}
            for size in (4, 33)
        ]

    def generate_performance_test(self) -> dict[str, Any]:
        return {"A": torch.rand(1000), "B": torch.rand(1000), "C": torch.zeros(1000), "N": 1000}
