import torch
import torch.nn as nn


class Model(nn.Module):
    """Layers made from a list of sizes."""

    def __init__(self, size, hidden, out):
        super().__init__()
        layers = []
        for width in hidden:
            layers += [nn.Linear(size, width), nn.ReLU()]
            size = width
        self.network = nn.Sequential(*layers, nn.Linear(size, out))

    def forward(self, x):
        return self.network(x)


def get_inputs():
    return [torch.rand(4, 20)]


def get_init_inputs():
    return [20, [32, 16], 5]
