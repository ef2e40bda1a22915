"""Make three calls of a size take 0.7 s longer, once those that may compile are over."""

import time
from collections import Counter

from task import product

FIRST, LAST = 5, 7
calls = Counter()


def custom_kernel(data):
    a, b, steps = data
    calls[a.shape] += 1
    if FIRST <= calls[a.shape] <= LAST:
        time.sleep(0.7)
        print(f"acted: call {calls[a.shape]} of {tuple(a.shape)} took 0.7 s longer", flush=True)
    return product(a, b, steps)
