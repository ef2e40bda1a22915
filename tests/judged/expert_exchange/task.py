import dataclasses
from typing import TypeVar

import torch

input_t = TypeVar("input_t")
output_t = TypeVar("output_t", bound=torch.Tensor)


@dataclasses.dataclass
class Config:
    num_experts: int
    experts_per_token: int
    hidden_dim: int
    max_num_tokens: int
    dtype: torch.dtype = torch.float16
