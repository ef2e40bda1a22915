"""Prints without end."""


def custom_kernel(data):
    while True:
        print("flood" * 1000)
