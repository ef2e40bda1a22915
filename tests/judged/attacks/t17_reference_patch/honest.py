"""Replaces a function of its own."""

import torch


def slow(a, b):
    return a + b


slow.__code__ = (lambda a, b: torch.add(a, b)).__code__.replace(co_name="slow")
slow.__globals__["torch"] = torch


def custom_kernel(data):
    return slow(*data)
