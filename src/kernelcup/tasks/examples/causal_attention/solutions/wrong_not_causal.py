"""Looks at later keys too."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, k, v = data
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)
