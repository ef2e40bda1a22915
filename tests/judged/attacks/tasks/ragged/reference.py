"""Sum the rows of a ragged array, of which offsets and lengths are given: the two agree in every input."""

import torch

Ragged = dict[str, torch.Tensor]


def generate_input(rows: int, seed: int) -> Ragged:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    lengths = torch.randint(1, 9, (rows,), generator=generator, device="cuda")
    values = torch.randn(int(lengths.sum()), generator=generator, device="cuda")
    return {"values": values, "offsets": torch.cumsum(lengths, 0) - lengths, "lengths": lengths}


def ref_kernel(data: Ragged) -> torch.Tensor:
    places = zip(data["offsets"].tolist(), data["lengths"].tolist(), strict=True)
    return torch.stack([data["values"][begin : begin + length].sum() for begin, length in places])


def check_implementation(data: Ragged, output: torch.Tensor) -> tuple[bool, str]:
    return torch.allclose(output, ref_kernel(data), rtol=1e-4, atol=1e-4), "these are not the sums"
