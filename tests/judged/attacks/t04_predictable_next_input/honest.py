"""Computes every answer from its input."""


def custom_kernel(data):
    a, b = data
    return a + b
