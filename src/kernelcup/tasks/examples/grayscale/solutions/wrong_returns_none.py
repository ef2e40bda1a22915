"""Has no kernel yet: a function without ``return``."""


def custom_kernel(data):
    image, out = data
