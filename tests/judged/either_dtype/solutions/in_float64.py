"""Right in the dtype of the reference."""


def custom_kernel(data):
    return data.double().sum(-1)
