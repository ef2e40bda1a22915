"""Lets a thread compute into the output, and waits for it."""

import threading

import torch


def custom_kernel(data):
    a, b = data
    out = torch.zeros_like(a)
    thread = threading.Thread(target=lambda: torch.add(a, b, out=out))
    thread.start()
    thread.join()
    return out
