"""Takes one row after the other, and all pixels of a row at once."""

import torch


def custom_kernel(data):
    image, out = data
    weights = torch.tensor([0.299, 0.587, 0.114], device=image.device)
    for pixels, grey in zip(image, out):
        grey.copy_(pixels @ weights)
    return out
