from typing import Literal, TypedDict

import torch

input_t = tuple[torch.Tensor, bool, str]
output_t = torch.Tensor


class TestSpec(TypedDict):
    sizes: list[int]
    negate: bool
    rounding: Literal["floor", "ceil", "nearest"]
    seed: int
