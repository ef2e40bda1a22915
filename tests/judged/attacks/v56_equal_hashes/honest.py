"""Add, and leave the description to the harness."""


def custom_kernel(data):
    a, b = data
    return a + b
