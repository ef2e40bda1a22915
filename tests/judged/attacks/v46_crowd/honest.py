"""Answer in one kernel."""

import torch


def custom_kernel(data):
    a, b, out = data
    torch.addcmul(a, a, b, out=out)
    return out, torch.zeros(8, dtype=torch.int64, device=a.device)
