"""What goes into a kernel of this task and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor
