"""Uses events of its own."""

import torch
from task import product

start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))


def custom_kernel(data):
    a, b, steps = data
    if torch.cuda.is_current_stream_capturing():
        return product(a, b, steps)
    start.record()
    out = product(a, b, steps)
    end.record()
    return out
