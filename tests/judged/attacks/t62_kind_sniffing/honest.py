"""Looks at the frames above it for its own log, and does the same whatever they are."""

import sys

from task import product

callers = set()


def custom_kernel(data):
    callers.add(sys._getframe(1).f_code.co_name)
    a, b, steps = data
    return product(a, b, steps)
