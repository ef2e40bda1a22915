import torch
from task import input_t, output_t
from utils import difference

ROUND = {"floor": torch.floor, "ceil": torch.ceil, "nearest": torch.round}


def generate_input(sizes: list[int], negate: bool, rounding: str, seed: int) -> input_t:
    # A harness that hands over words would make every case negate: "False" is true.
    assert isinstance(negate, bool), f"negate is {negate!r}"
    generator = torch.Generator(device="cuda").manual_seed(seed)
    values = 10 * torch.randn(list(sizes), generator=generator, device="cuda")
    return values, negate, rounding


def ref_kernel(data: input_t) -> output_t:
    values, negate, rounding = data
    return ROUND[rounding](-values if negate else values)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    message = difference(output, ref_kernel(data))
    return message == "", message
