"""Return memory that was never written, in the hope that the answer lies there."""

import torch


def custom_kernel(data):
    a, _ = data
    blocks = [torch.empty_like(a) for _ in range(32)]
    del blocks
    return torch.empty_like(a)
