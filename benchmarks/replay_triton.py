"""Triton kernels of ``replay_cases.py``: they must lie in a file."""

# ruff: noqa: I002, N803  Triton reads annotations as they are
import triton
import triton.language as tl


@triton.jit
def fma(a, b, c, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    value = tl.load(a + at, mask=inside) * tl.load(b + at, mask=inside) + tl.load(c + at, mask=inside)
    tl.store(out + at, value, mask=inside)


@triton.jit
def fma_twice(a, b, c, out, blocks, B: tl.constexpr):
    """Blocks beyond ``blocks`` do the first ones again."""
    at = (tl.program_id(0) % blocks) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(a + at) * tl.load(b + at) + tl.load(c + at))
