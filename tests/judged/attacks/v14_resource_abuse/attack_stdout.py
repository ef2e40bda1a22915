"""Print 10 GB."""

import os


def custom_kernel(data):
    line = b"x" * (1 << 20)
    for _ in range(10 << 10):
        os.write(1, line)
    return data[0] + data[1]
