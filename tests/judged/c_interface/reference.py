"""Scale and add two vectors, and count what is positive."""

import torch


def generate_input(size: int, seed: int):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a, b = (torch.randn(size, generator=generator, device="cuda") for _ in range(2))
    return {"a": a, "b": b, "scale": 1.5, "names": ["x", True]}


def ref_kernel(data):
    total = data["a"] + data["scale"] * data["b"]
    return total, int((total > 0).sum())


def check_implementation(data, output):
    total, count = ref_kernel(data)
    if not torch.allclose(total, output[0], rtol=1e-5, atol=1e-6):
        return False, "the sum is wrong"
    return count == output[1], f"{output[1]} are positive; expected {count}"
