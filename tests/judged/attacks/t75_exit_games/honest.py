"""Registers a handler for its exit, and stays until it is told to go."""

import atexit

atexit.register(lambda: None)


def custom_kernel(data):
    a, b = data
    return a + b
