import torch
from utils import make_match_reference


def generate_input(size: int, seed: int):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(16, size, device="cuda", generator=generator)


def ref_kernel(data):
    return data * torch.arange(1, data.shape[1] + 1, device=data.device)


check_implementation = make_match_reference(ref_kernel, rtol=1e-5, atol=1e-5)
