"""Tasks of ``clean_room_jobs.py`` beside the kinds of calls of ``replay_cases.py``: what competitions ask for."""

from __future__ import annotations

from replay_cases import CASES as KINDS
from replay_cases import Case, plain


def halves(a, b, out):
    out[...] = a + b
    return out


def sum_of(a, b, _out):
    return a + b


def gray(image, out):
    out[...] = 0.2989 * image[..., 0] + 0.5870 * image[..., 1] + 0.1140 * image[..., 2]
    return out


def gray_of(image, _out):
    return 0.2989 * image[..., 0] + 0.5870 * image[..., 1] + 0.1140 * image[..., 2]


def counted():
    import torch

    ones = torch.ones(1, dtype=torch.int64, device="cuda")

    def call(data):
        return torch.zeros(256, dtype=torch.int64, device=data.device).scatter_add_(
            0, data.long(), ones.expand(data.numel())
        )

    return call


def counts(data):
    import torch

    return torch.bincount(data, minlength=256)


TASKS = {
    "vectoradd": Case([((4096, 4096), "float16")] * 3, plain(halves), sum_of, 1e-2),
    "grayscale": Case([((2048, 2048, 3), "float32"), ((2048, 2048), "float32")], plain(gray), gray_of),
    "histogram": Case([((1 << 22,), "uint8")], counted, counts, 0.0),
    "halves": Case([((16384, 16384), "float16")] * 3, plain(halves), sum_of, 1e-2),
}
CASES = {**KINDS, **TASKS}
