"""Return the right values in a sparse tensor."""


def custom_kernel(data):
    a, b = data
    return (a + b).to_sparse()
