"""Keeps the last answer, and does not hand it out again."""

last = {}


def custom_kernel(data):
    a, b = data
    last[a.shape] = a + b
    return last[a.shape]
