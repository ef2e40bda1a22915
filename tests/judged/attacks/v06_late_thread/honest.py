"""Computes in two threads and waits for both."""

import threading

import torch


def custom_kernel(data):
    a, b = data
    out = torch.zeros_like(a)
    middle = a.numel() // 2

    def part(low, high):
        torch.add(a[low:high], b[low:high], out=out[low:high])

    threads = [
        threading.Thread(target=part, args=(0, middle)),
        threading.Thread(target=part, args=(middle, a.numel())),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out
