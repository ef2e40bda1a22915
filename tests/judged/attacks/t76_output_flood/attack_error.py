"""Raise an error with a text of 256 MB."""


def custom_kernel(data):
    raise ValueError("x" * (256 << 20))
