"""Return a million values."""


def custom_kernel(data):
    return [0] * 1_000_000
