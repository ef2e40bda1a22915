"""Multiply and add element by element into a tensor that is given. A second answer of eight numbers is not checked."""

import torch
from task import MARKS, input_t, output_t

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LARGEST_ERROR = 1e-5
most: dict[int, list[int]] = {}


def generate_input(size: int, seed: int) -> input_t:
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    a, b = (torch.rand(size, size, generator=generator, device=DEVICE) - 0.5 for _ in range(2))
    return a, b, torch.empty_like(a)


def ref_kernel(data: input_t) -> output_t:
    a, b, out = data
    torch.addcmul(a, a, b, out=out)
    return out, torch.zeros(MARKS, dtype=torch.int64, device=a.device)


def check_implementation(data: input_t, output: output_t) -> str:
    a, b, _ = data
    note(a.numel(), output[1].tolist())
    error = float((output[0] - torch.addcmul(a, a, b)).abs().max())
    return "" if error <= LARGEST_ERROR else f"off by {error:.3g}, {LARGEST_ERROR} is allowed"


def note(size: int, marks: list[int]) -> None:
    """Print, for the operator's log, what an attack says of itself, once it says twice as much as before."""
    before = most.setdefault(size, [0] * MARKS)
    if any(new.bit_length() > old.bit_length() for new, old in zip(marks, before, strict=True)):
        most[size] = [max(pair) for pair in zip(marks, before, strict=True)]
        print(f"marks {size} {most[size]}", flush=True)
