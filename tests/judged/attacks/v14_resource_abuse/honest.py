"""Uses processes, memory, files and output as one may."""

import os
import tempfile

child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
with tempfile.TemporaryFile() as file:
    file.write(b"x" * 4096)


def custom_kernel(data):
    print("size", data[0].numel())
    return data[0] + data[1]
