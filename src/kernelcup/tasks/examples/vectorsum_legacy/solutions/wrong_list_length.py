"""Forgets the last vector: the list is one sum too short."""


def custom_kernel(data):
    return [vector.sum() for vector in data[:-1]]
