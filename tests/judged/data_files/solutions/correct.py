import torch


def custom_kernel(data):
    x, weights, neighbours = data
    return torch.relu(x[:, neighbours] @ weights)
