"""Scans each block of 1024 by itself and never adds what came before."""

import torch


def custom_kernel(data):
    return torch.cat([torch.cumsum(block, dim=0) for block in data.split(1024)])
