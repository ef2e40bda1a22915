"""What goes in and what comes out, and the product itself, which is not what this task is about."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, int]
output_t = torch.Tensor


def product(
    a: torch.Tensor, b: torch.Tensor, steps: int, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Multiply ``a`` by ``b``, which is turned around before, again and again.

    Small inputs take long that way on a processor, and on one thread: others disturb that less.
    """
    for _ in range(steps - 1):
        b = 1 - b
    return torch.mm(a, b, out=out)
