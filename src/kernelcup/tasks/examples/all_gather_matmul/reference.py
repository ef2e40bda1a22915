"""All-gather and matrix product: the input of each GPU rank, the product in float32, and the check."""

import torch
import torch.distributed as dist
from task import input_t, output_t
from utils import verbose_allclose


def generate_input(m: int, n: int, k: int, world_size: int, seed: int, rank: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed + rank)
    x = torch.randn((m, k), generator=generator, device="cuda").bfloat16()
    w = torch.randn((k, n), generator=generator, device="cuda").bfloat16()
    return x, w


def ref_kernel(data: input_t) -> output_t:
    x, w = data
    rows = torch.empty((dist.get_world_size() * len(x), x.shape[1]), dtype=x.dtype, device=x.device)
    dist.all_gather_into_tensor(rows, x)
    return (rows.float() @ w.float()).bfloat16()


def check_implementation(data: input_t, output: output_t) -> str:
    """Return what is wrong, an empty text if nothing is."""
    # The sum of k products is about as large as the root of k, and so is its error.
    atol = 0.01 * data[0].shape[1] ** 0.5
    return "\n".join(verbose_allclose(output.float(), ref_kernel(data).float(), rtol=1e-2, atol=atol))
