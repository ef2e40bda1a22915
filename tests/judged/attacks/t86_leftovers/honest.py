"""Cleans up after itself."""

import os
import socket

path = "/dev/shm/kernelcup-own"
with open(path, "w") as file:
    file.write("own")
os.unlink(path)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind("\0kernelcup-own")
listener.close()


def custom_kernel(data):
    a, b = data
    return a + b
