"""Looks at its own time, and changes no clock."""

import time

from task import product

spent = []


def custom_kernel(data):
    begun = time.perf_counter_ns()
    a, b, steps = data
    out = product(a, b, steps)
    spent.append(time.perf_counter_ns() - begun)
    return out
