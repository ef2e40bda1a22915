"""What goes into a kernel of this task, what comes out, and what a case consists of."""

from typing import TypedDict

import torch

input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    height: int
    width: int
    seed: int
