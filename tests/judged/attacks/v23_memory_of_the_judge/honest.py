"""Writes all of the memory that it is given."""

import torch


def custom_kernel(data):
    values, out = data
    return torch.mul(values, values, out=out)
