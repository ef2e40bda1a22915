"""Has statistics of its own, and leaves others' alone."""

import statistics
import time

from task import product

spent = []


def custom_kernel(data):
    begun = time.monotonic()
    a, b, steps = data
    out = product(a, b, steps)
    spent.append(time.monotonic() - begun)
    statistics.fmean(spent[-10:])
    return out
