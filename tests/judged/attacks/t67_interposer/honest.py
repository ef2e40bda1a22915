"""Moves descriptors of its own about."""

import os
import socket

left, right = socket.socketpair()
os.dup2(left.fileno(), right.fileno())


def custom_kernel(data):
    a, b = data
    return a + b
