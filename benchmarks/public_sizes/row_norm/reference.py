"""A reference as public tasks have them: with deterministic algorithms, which forbid more than it uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def deterministic() -> Iterator[None]:
    """Use deterministic algorithms only."""
    before = torch.are_deterministic_algorithms_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def generate_input(rows: int, width: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(rows, width, device="cuda", generator=generator).contiguous()


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    with deterministic():
        exact = data.double()
        return (exact * torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + 1e-6)).float()


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> tuple[bool, str]:
    wrong = int((~torch.isclose(output, ref_kernel(data), rtol=1e-4, atol=1e-5)).sum())
    return not wrong, f"{wrong} elements differ"
