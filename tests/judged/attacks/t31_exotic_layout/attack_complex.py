"""Return a complex tensor with the conjugate bit set."""

import torch


def custom_kernel(data):
    a, b = data
    return torch.conj(torch.complex(a + b, torch.zeros_like(a)))
