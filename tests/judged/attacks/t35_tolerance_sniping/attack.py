"""Leave out the last of the terms that are summed."""


def custom_kernel(data):
    a, b = data
    return a[:, :-1] @ b[:-1]
