"""Is slow in its first calls, as what compiles is, and right in all."""

import time

calls = {}


def custom_kernel(data):
    a, b = data
    calls[a.shape] = calls.get(a.shape, 0) + 1
    if calls[a.shape] <= 2:
        time.sleep(0.02)
    return a + b
