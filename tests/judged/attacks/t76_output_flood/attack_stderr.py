"""Write to standard error without end."""

import os


def custom_kernel(data):
    while True:
        os.write(2, b"y\n" * 4096)
