"""Return the numbers in the reference's dtype."""


def custom_kernel(data):
    return data.cumsum(0) * 256
