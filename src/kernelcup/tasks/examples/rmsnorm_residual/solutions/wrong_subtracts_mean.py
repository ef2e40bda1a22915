"""Subtracts the mean too."""

import torch
from task import EPSILON, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, residual, weight = data
    h = x.float() + residual.float()
    y = torch.nn.functional.layer_norm(h, (h.shape[-1],), weight.float(), eps=EPSILON)
    return y.bfloat16(), h.bfloat16()
