"""Write the sum into the third vector."""

import torch


def custom_kernel(data):
    a, b, out = data
    torch.add(a, b, out=out)
