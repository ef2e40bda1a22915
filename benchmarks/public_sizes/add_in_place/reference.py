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


def generate_input(size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    made = [
        torch.randn(size, size, device="cuda", dtype=torch.float16, generator=generator) for _ in range(2)
    ]
    return made[0].contiguous(), made[1].contiguous(), torch.empty_like(made[0])


def ref_kernel(data: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
    with deterministic():
        a, b, output = data
        output[...] = a + b
        return output


def check_implementation(data: tuple[torch.Tensor, ...], output: torch.Tensor) -> tuple[bool, str]:
    with deterministic():
        wrong = int(((data[0] + data[1]).float() - output.float()).abs().gt(1e-3).sum())
    return not wrong, f"{wrong} elements differ"
