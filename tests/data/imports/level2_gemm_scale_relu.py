import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer, a factor and ReLU."""

    def __init__(self, in_features, out_features, factor):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.factor = nn.Parameter(torch.tensor(float(factor)))

    def forward(self, x):
        return torch.relu(self.gemm(x) * self.factor)


def get_inputs():
    return [torch.rand(16, 32)]


def get_init_inputs():
    return [32, 24, 2]
