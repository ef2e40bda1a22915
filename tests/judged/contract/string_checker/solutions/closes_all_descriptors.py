"""Closes all files that it did not open, the harness's pipe or socket among them. Exit code 111."""

import os


def custom_kernel(data):
    output = data * data * data
    os.closerange(3, 1024)
    return output
