"""Right as far as anybody can tell, which is not far."""


def custom_kernel(data):
    return 2 * data
