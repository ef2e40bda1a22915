import torch


def custom_kernel(data):
    a, b, c, _size = data
    return torch.add(a, b, out=c)
