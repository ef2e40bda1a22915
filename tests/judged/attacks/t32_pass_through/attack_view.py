"""Return a view of the input, which is another object."""


def custom_kernel(data):
    return data.view(-1, 1).view(-1)
