"""Cleans up after itself."""

import os
import socket
import tempfile

with tempfile.NamedTemporaryFile() as file:
    file.write(b"own")
shared = os.memfd_create("kernelcup-own")
os.write(shared, b"own")
os.close(shared)
left, right = socket.socketpair()
left.close()
right.close()


def custom_kernel(data):
    a, b = data
    return a + b
