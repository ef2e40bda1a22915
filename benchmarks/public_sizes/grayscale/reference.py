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


WEIGHTS = (0.2989, 0.5870, 0.1140)


def generate_input(size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    image = torch.rand(size, size, 3, device="cuda", generator=generator).contiguous()
    return image, torch.empty(size, size, device="cuda")


def ref_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    with deterministic():
        image, output = data
        weights = torch.tensor(WEIGHTS, device=image.device, dtype=torch.float64)
        output[...] = (image.double() * weights).sum(dim=-1).float()
        return output


def check_implementation(data: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> tuple[bool, str]:
    expected = ref_kernel((data[0], torch.empty_like(data[1])))
    wrong = int((~torch.isclose(output, expected, rtol=1e-4, atol=1e-4)).sum())
    return not wrong, f"{wrong} elements differ"
