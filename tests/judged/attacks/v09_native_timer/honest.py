"""Asks the C library for the time by ctypes, and patches nothing."""

import ctypes

from task import product

libc = ctypes.CDLL(None)
moment = (ctypes.c_long * 2)()


def custom_kernel(data):
    a, b, steps = data
    libc.clock_gettime(1, moment)
    return product(a, b, steps)
