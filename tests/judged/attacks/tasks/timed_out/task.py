"""What attacks on this task and their twins share."""

import torch

MARKS = 8
"""Length of the second answer: an attack says in it what it has done."""

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
output_t = tuple[torch.Tensor, torch.Tensor]
