"""Types of the task: a tensor in each GPU rank, and the sum of all of them."""

import torch

input_t = torch.Tensor
output_t = torch.Tensor
