"""Sums in two parts, none left out."""


def custom_kernel(data):
    a, b = data
    return a[:, :-1] @ b[:-1] + a[:, -1:] @ b[-1:]
