"""Triton kernels of ``replay_cases.py``: they must lie in a file."""

# ruff: noqa: I002, N803  Triton reads annotations as they are
import triton
import triton.language as tl
from triton.language.extra import cuda


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


@triton.jit
def fma_in_turns(a, b, c, out, n, B: tl.constexpr):
    """As many programs as are launched, each with several blocks."""
    for block in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        at = block * B + tl.arange(0, B)
        inside = at < n
        value = tl.load(a + at, mask=inside) * tl.load(b + at, mask=inside) + tl.load(c + at, mask=inside)
        tl.store(out + at, value, mask=inside)


@triton.jit
def fma_dependent(a, b, c, out, n, B: tl.constexpr):
    """May begin before the kernel that it depends on is over, and waits for it before it reads."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    cuda.gdc_wait()
    value = tl.load(a + at, mask=inside) * tl.load(b + at, mask=inside) + tl.load(c + at, mask=inside)
    tl.store(out + at, value, mask=inside)
    cuda.gdc_launch_dependents()


@triton.jit
def matmul_tma(a, b, out, M, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A matrix product by tensor descriptors."""
    row, column = tl.program_id(0) % tl.cdiv(M, BM), tl.program_id(0) // tl.cdiv(M, BM)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a.load([row * BM, k]), b.load([k, column * BN]), sums)
    out.store([row * BM, column * BN], sums.to(tl.float16))
