"""One call of the library. It also talks, within reason: that is no fault."""

import sys

import torch

print("ready")


def custom_kernel(data):
    print(f"a matrix of {data.shape[0]} rows", file=sys.stderr)
    return torch.softmax(data, dim=-1)
