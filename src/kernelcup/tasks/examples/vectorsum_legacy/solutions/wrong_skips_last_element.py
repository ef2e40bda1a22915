"""Leaves the last element out of each sum."""


def custom_kernel(data):
    return [vector[:-1].sum() for vector in data]
