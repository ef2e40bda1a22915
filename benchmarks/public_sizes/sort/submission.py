from __future__ import annotations

import torch


def custom_kernel(data):
    values, output = data
    output[...] = torch.sort(values)[0]
    return output
