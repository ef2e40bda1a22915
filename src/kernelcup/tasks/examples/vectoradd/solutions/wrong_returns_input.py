"""Hands back one of the inputs."""


def custom_kernel(data):
    a, _ = data
    return a
