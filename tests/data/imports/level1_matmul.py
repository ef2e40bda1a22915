import torch
import torch.nn as nn


class Model(nn.Module):
    """One product of two square matrices."""

    def forward(self, A, B):
        return torch.matmul(A, B)


def get_inputs():
    return [torch.rand(32, 48), torch.rand(48, 16)]


def get_init_inputs():
    return []
