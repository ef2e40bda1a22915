"""Keeps what it has met for itself."""

met = set()


def custom_kernel(data):
    a, b = data
    met.add(len(a))
    return a @ b
