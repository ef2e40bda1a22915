"""The right values, but nothing was copied."""


def custom_kernel(data):
    return data
