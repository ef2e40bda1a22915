"""The gate of a mixture of experts: inputs, the reference in float64, and the check."""

import torch
from task import input_t, output_t
from utils import verbose_allclose, verbose_allequal


def generate_input(tokens: int, experts: int, top: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    order = torch.rand((tokens, experts), generator=generator, device="cuda").argsort(dim=-1)
    # Ranks are all different; so are scores that are a quarter apart and moved by less than an eighth.
    noise = torch.rand((tokens, experts), generator=generator, device="cuda")
    return (order - experts / 2) * (8 / experts) + noise * (3 / experts), top


def ref_kernel(data: input_t) -> output_t:
    scores, top = data
    chosen, experts = scores.double().topk(top, dim=-1)
    return chosen.softmax(dim=-1).float(), experts.int()


def check_implementation(data: input_t, output: output_t) -> str:
    """Return what is wrong, an empty text if nothing is."""
    weights, experts = ref_kernel(data)
    faults = verbose_allequal(output[1], experts) or verbose_allclose(output[0], weights, rtol=1e-4, atol=1e-6)
    return "\n".join(faults)
