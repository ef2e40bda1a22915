"""Runs on a stream of its own, without a window."""

import torch

side = torch.cuda.Stream()


def custom_kernel(data):
    a, b = data
    now = torch.cuda.current_stream()
    side.wait_stream(now)
    with torch.cuda.stream(side):
        out = a + b
    now.wait_stream(side)
    return out
