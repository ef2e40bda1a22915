"""Wait a little where the clock runs, and not in what is captured: the slope is to be ranked."""

import torch

CYCLES = 600_000


def custom_kernel(data):
    a, b = data
    if not torch.cuda.is_current_stream_capturing():
        torch.cuda._sleep(CYCLES)
    return a + b
