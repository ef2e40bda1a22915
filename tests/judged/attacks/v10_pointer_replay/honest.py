"""Remembers by address and shape only what follows from them: a place for the answer."""

import torch

places = {}


def custom_kernel(data):
    a, b = data
    key = (a.data_ptr(), tuple(a.shape))
    if key not in places:
        places[key] = torch.empty_like(a)
    return torch.add(a, b, out=places[key])
