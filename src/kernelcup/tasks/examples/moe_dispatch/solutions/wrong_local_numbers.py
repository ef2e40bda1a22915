"""Takes the numbers of experts for those of its own matrices."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, chosen, weights, w = data
    output = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for place in range(chosen.shape[1]):
        matrices = w[chosen[:, place] % len(w)]
        output += weights[:, place, None] * (x[:, None] @ matrices)[:, 0]
    return output.to(x.dtype)
