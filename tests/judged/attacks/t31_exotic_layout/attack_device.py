"""Return the right values on the processor."""


def custom_kernel(data):
    a, b = data
    return (a + b).cpu()
