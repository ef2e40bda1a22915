"""Right in the dtype of the input, which is not the reference's."""


def custom_kernel(data):
    return data.sum(-1)
