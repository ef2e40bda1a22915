"""Returns both outputs."""

from task import Pair


def custom_kernel(data):
    a, b = data
    return Pair(total=a + b, difference=a - b)
