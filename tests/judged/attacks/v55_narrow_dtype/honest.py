"""Return the sums as they are."""


def custom_kernel(data):
    return data.cumsum(0)
