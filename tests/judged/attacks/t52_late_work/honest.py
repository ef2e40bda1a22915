"""Does its work in a thread and waits for it."""

import threading

import torch
from task import product


def custom_kernel(data):
    a, b, steps = data
    if a.is_cuda:
        return product(a, b, steps)
    out = torch.empty_like(a)
    worker = threading.Thread(target=lambda: product(a, b, steps, out))
    worker.start()
    worker.join()
    return out
