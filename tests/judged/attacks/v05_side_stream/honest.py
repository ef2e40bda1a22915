"""Uses a stream of its own and joins it again."""

import torch
from task import product

side = torch.cuda.Stream()


def custom_kernel(data):
    a, b, steps = data
    now = torch.cuda.current_stream()
    side.wait_stream(now)
    with torch.cuda.stream(side):
        out = product(a, b, steps)
    now.wait_stream(side)
    return out
