"""Reads its own output back through its address."""

import ctypes

import torch


def custom_kernel(data):
    a, b = data
    out = a + b
    host = out.to("cpu")
    assert len(ctypes.string_at(host.data_ptr(), 4)) == 4
    return out
