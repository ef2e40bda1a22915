"""Takes one pixel after the other: correct, and slow by orders of magnitude."""

import torch


def custom_kernel(data):
    image, out = data
    weights = torch.tensor([0.299, 0.587, 0.114], device=image.device)
    height, width = out.shape
    for row in range(height):
        for column in range(width):
            out[row, column] = image[row, column] @ weights
    return out
