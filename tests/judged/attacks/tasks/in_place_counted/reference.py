"""Double some elements in place. The checker takes from the answer how many."""

import torch


def generate_input(size: int, seed: int) -> dict:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(size, generator=generator, device="cuda")
    return {"x": x, "count": size - seed % 3, "out": torch.zeros(size, device="cuda")}


def ref_kernel(data: dict) -> None:
    count = data["count"]
    data["out"][:count] = data["x"][:count] * 2


def check_implementation(data: dict, output: dict) -> bool:
    count = output["count"]
    return torch.allclose(output["out"][:count], data["x"][:count] * 2)
