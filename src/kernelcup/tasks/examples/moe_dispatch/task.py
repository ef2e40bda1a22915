"""Types of the task: tokens, what they are sent to, and the experts of each GPU rank."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor
