"""Reads how much memory it has from /proc/self."""

SIZE = len(open("/proc/self/maps").read())


def custom_kernel(data):
    a, b = data
    return a + b
