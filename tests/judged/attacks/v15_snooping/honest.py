"""Looks at its own process, writes to its own folders, and talks to itself."""

import os
import socket
import tempfile

print(len(open("/proc/self/environ", "rb").read()), os.listdir("."))
with tempfile.NamedTemporaryFile() as file:
    file.write(b"own")
left, right = socket.socketpair()
left.send(b"hello")
right.recv(5)


def custom_kernel(data):
    a, b = data
    return a + b
