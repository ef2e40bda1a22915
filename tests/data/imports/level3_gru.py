import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.gru = nn.GRU(size, hidden, num_layers=2)

    def forward(self, x, h0):
        output, _ = self.gru(x, h0)
        return output


def get_inputs():
    return [torch.rand(5, 3, 8), torch.rand(2, 3, 12)]


def get_init_inputs():
    return [8, 12]
