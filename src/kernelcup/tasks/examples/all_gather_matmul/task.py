"""Types of the task: a part of the rows and of the weights in each GPU rank, and a part of the columns."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor
