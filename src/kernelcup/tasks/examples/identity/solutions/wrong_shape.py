"""The right values in a matrix of one row."""


def custom_kernel(data):
    return data.clone().unsqueeze(0)
