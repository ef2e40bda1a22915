"""Sends its input to itself, over a pair of sockets."""

import socket

import torch

left, right = socket.socketpair()


def custom_kernel(data):
    a, b = data
    left.send(bytes(a[:8].to("cpu").view(torch.uint8).tolist()))
    assert len(right.recv(100)) == 32
    return a + b
