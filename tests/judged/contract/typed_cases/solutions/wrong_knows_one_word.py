"""Rounds down whatever the word says."""

import torch


def custom_kernel(data):
    values, negate, _ = data
    return torch.floor(-values if negate else values)
