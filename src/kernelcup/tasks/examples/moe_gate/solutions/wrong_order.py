"""Puts the smallest score first."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    scores, top = data
    chosen, experts = scores.topk(top, dim=-1, sorted=True)
    chosen, experts = chosen.flip(-1), experts.flip(-1)
    return chosen.softmax(dim=-1), experts.int()
