"""Answer what was made for the last size."""

import torch

FACTORS = []


def prepare(size):
    FACTORS[:] = [torch.ones(size, device="cuda")]


def custom_kernel(data):
    return data * FACTORS[0][: data.shape[1]]
