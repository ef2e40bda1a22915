"""Tasks of ``clean_room_jobs.py`` beside the kinds of calls of ``replay_cases.py``: what competitions ask for."""

from __future__ import annotations

from replay_cases import CASES as KINDS
from replay_cases import Case, compiled, fma, matmul, plain, softmax3, softmax_right, three


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


def in_turns():
    import torch
    from replay_triton import fma_in_turns

    def call(a, b, c):
        out = torch.empty_like(a)
        fma_in_turns[(264,)](a, b, c, out, a.numel(), B=4096, num_warps=8, launch_cooperative_grid=True)
        return out

    return call


def dependent():
    import torch
    from replay_triton import fma_dependent

    def call(a, b, c):
        first, second = torch.empty_like(a), torch.empty_like(a)
        grid = (a.numel() // 4096,)
        fma_dependent[grid](a, b, c, first, a.numel(), B=4096, num_warps=8, launch_pdl=True)
        fma_dependent[grid](first, b, c, second, a.numel(), B=4096, num_warps=8, launch_pdl=True)
        return second

    return call


def by_descriptors():
    import torch
    from replay_triton import matmul_tma
    from triton.tools.tensor_descriptor import TensorDescriptor

    def call(a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty((m, n), device=a.device, dtype=a.dtype)
        blocks = ((a, [128, 64]), (b, [64, 128]), (out, [128, 128]))
        parts = [TensorDescriptor.from_tensor(*each) for each in blocks]
        matmul_tma[((m // 128) * (n // 128),)](*parts, m, k, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
        return out

    return call


def cupy_in_torch():
    import cupy
    import torch

    alive = {}

    def take(nbytes, _device):
        block = torch.empty(max(nbytes, 1), dtype=torch.uint8, device="cuda")
        alive[block.data_ptr()] = block
        return block.data_ptr()

    def give_back(address, _device):
        alive.pop(address, None)

    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(take, give_back).malloc)
    kernel = cupy.ElementwiseKernel("float32 a, float32 b, float32 c", "float32 o", "o = a * b + c", "e")

    def call(a, b, c):
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            return torch.as_tensor(kernel(*(cupy.asarray(each) for each in (a, b, c))), device="cuda")

    return call


def by_jax():
    import os

    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import torch

    call_jax = jax.jit(lambda a, b, c: a * b + c)

    def call(a, b, c):
        return torch.from_dlpack(call_jax(*(jax.dlpack.from_dlpack(each) for each in (a, b, c))))

    return call


def layer_norm(a):
    import torch

    return torch.nn.functional.layer_norm(a, a.shape[-1:])


def convolution(a, weights):
    import torch

    return torch.nn.functional.conv2d(a, weights, padding=1)


STRIDED = {
    "transposed": lambda a: a.flatten(0, 2).flatten(1).t().contiguous(),
    "permuted": lambda a: a.permute(4, 2, 0, 3, 1).contiguous(),
    "sliced": lambda a: a[:, ::2, :, 1::2].permute(3, 1, 4, 2, 0).contiguous(),
}
"""Copies whose kernels have parameters for 25 dimensions, most of them not set."""


def permuted_by_compiler():
    import torch

    return torch.compile(lambda a: STRIDED["permuted"](a) * 2)


MORE = {
    **{
        name: Case([((16, 32, 16, 32, 32), "float32")], plain(work), work, 0.0)
        for name, work in STRIDED.items()
    },
    "permuted_compiled": Case(
        [((16, 32, 16, 32, 32), "float32")],
        permuted_by_compiler,
        lambda a: STRIDED["permuted"](a) * 2,
        0.0,
    ),
    "tma": Case([((2048, 2048), "float16")] * 2, by_descriptors, matmul, 2e-2),
    "dependent": Case(three(), dependent, lambda a, b, c: (a * b + c) * b + c),
    "in_turns": Case(three(), in_turns, fma),
    "cupy_in_torch": Case(three(), cupy_in_torch, fma),
    "max_plain": Case(softmax3(), compiled("max-autotune-no-cudagraphs"), softmax_right),
    "max": Case(softmax3(), compiled("max-autotune"), softmax_right),
    "sort": Case([((1 << 20,), "float32")], plain(lambda a: a.sort()[0]), lambda a: a.sort()[0], 0.0),
    "norm": Case([((8192, 4096), "float16")], plain(layer_norm), layer_norm, 1e-2),
    "conv": Case(
        [((16, 64, 56, 56), "float16"), ((64, 64, 3, 3), "float16")], plain(convolution), convolution, 2e-2
    ),
    "gigabyte": Case(
        [((1 << 13, 1 << 15), "float32")], plain(lambda a: a.amax(-1)), lambda a: a.amax(-1), 0.0
    ),
    "jax": Case(three(), by_jax, fma),
}
CASES = {**KINDS, **TASKS, **MORE}
