"""What goes in and what comes out."""

import torch

input_t = torch.Tensor
output_t = torch.Tensor
