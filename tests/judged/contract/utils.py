"""What the tasks of this set share."""

import random

import torch


def set_seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def clear_l2_cache() -> None:
    torch.zeros(16 << 20, dtype=torch.int32, device="cuda")


def difference(output: object, expected: torch.Tensor, tolerance: float = 0.0) -> str:
    """Say in one line how ``output`` differs from ``expected``; nothing if it does not."""
    if not isinstance(output, torch.Tensor):
        return f"a tensor is expected, not {type(output).__name__}"
    if output.shape != expected.shape:
        return f"the shape is {tuple(output.shape)} where {tuple(expected.shape)} is expected"
    if output.dtype != expected.dtype:
        return f"the dtype is {output.dtype} where {expected.dtype} is expected"
    # Written so that NaN counts as wrong.
    wrong = ~((output.double() - expected.double()).abs() <= tolerance)
    return f"{int(wrong.sum())} of {wrong.numel()} elements are wrong" if bool(wrong.any()) else ""
