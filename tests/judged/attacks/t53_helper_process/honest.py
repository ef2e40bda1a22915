"""Forks a process at import that does nothing of the work."""

import os

from task import product

child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)


def custom_kernel(data):
    a, b, steps = data
    return product(a, b, steps)
