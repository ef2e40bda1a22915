"""An off-by-one: copies whole blocks of 64 and forgets that the last one may be incomplete."""

import torch


def custom_kernel(data):
    output = torch.zeros_like(data)
    whole = data.numel() // 64 * 64
    output[:whole] = data[:whole]
    return output
