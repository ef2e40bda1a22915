"""Wrong about every case, and each comes with its own long error."""

import torch


def custom_kernel(data):
    return torch.sort(data).values.double()
