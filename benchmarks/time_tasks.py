"""Tasks and submissions that times are measured with. Texts only: whoever judges them imports them.

Every task takes ``size`` and ``seed``. ``HONEST`` has twenty submissions without any trick, ``FORGED``
is put in front of one to halve what its clock says.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup_harness.protocol import Backend

HEAD = """\
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.float16 if DEVICE == "cuda" else torch.float32


def made(seed, *shape, dtype=DTYPE):
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    return torch.randn(*shape, device=DEVICE, dtype=dtype, generator=generator)


def check_implementation(data, output):
    expected = ref_kernel(data)
    if output.shape != expected.shape or output.dtype != expected.dtype:
        return "another form"
    return "" if torch.allclose(expected, output, rtol=RTOL, atol=ATOL) else "another value"


"""
PAIR = (
    HEAD
    + """\
RTOL, ATOL = 1e-2, 1e-2


def generate_input(size, seed):
    both = made(seed, 2, size, size)
    return both[0].contiguous(), both[1].contiguous()


def ref_kernel(data):
    a, b = data
    return a + b
"""
)
ADD = PAIR
COPY = (
    HEAD
    + """\
RTOL, ATOL = 0.0, 0.0


def generate_input(size, seed):
    return made(seed, size, size)


def ref_kernel(data):
    return data.clone()
"""
)
MATMUL = PAIR.replace("a + b", "a @ b").replace("1e-2, 1e-2", "3e-2, 1.0")
SOFTMAX = (
    HEAD
    + """\
RTOL, ATOL = 1e-4, 1e-6


def generate_input(size, seed):
    return made(seed, size, size, dtype=torch.float32)


def ref_kernel(data):
    return torch.softmax(data, dim=1)
"""
)
GRAYSCALE = (
    HEAD
    + """\
RTOL, ATOL = 1e-5, 1e-6


def generate_input(size, seed):
    image = made(seed, size, size, 3, dtype=torch.float32).abs()
    return image, torch.full((size, size), float("nan"), device=DEVICE)


def ref_kernel(data):
    red, green, blue = data[0].unbind(dim=-1)
    return 0.299 * red + 0.587 * green + 0.114 * blue
"""
)
HISTOGRAM = (
    HEAD
    + """\
RTOL, ATOL = 0.0, 0.0


def generate_input(size, seed):
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    return torch.randint(0, 256, (size * size,), device=DEVICE, generator=generator)


def ref_kernel(data):
    return torch.bincount(data, minlength=256)
"""
)
KINDS = """\
RTOL, ATOL = 3e-2, 1.0

# One kernel each: what the profiler sees is what a call takes.
SIZES = {1: 512, 2: 1536, 3: 3072, 4: 1024, 5: 2048, 6: 2048}


def generate_input(size, seed):
    side = SIZES[size] if DEVICE == "cuda" else 64
    a, b = made(seed, side, side), made(seed + 1, side, side)
    return {"kind": size, "a": a, "b": b}


def ref_kernel(data):
    a, b = data["a"], data["b"]
    if data["kind"] <= 3:
        return a + b
    return a @ b if data["kind"] <= 5 else torch.softmax(a, dim=1)
"""
SIX = HEAD + KINDS

TORCH_ADD = """\
def custom_kernel(data):
    a, b = data
    return a + b
"""
TORCH_MATMUL = TORCH_ADD.replace("a + b", "a @ b")
TORCH_SOFTMAX = """\
import torch


def custom_kernel(data):
    return torch.softmax(data, dim=1)
"""
TORCH_GRAYSCALE = """\
import torch

weights = {}


def custom_kernel(data):
    image, out = data
    if image.device not in weights:
        weights[image.device] = torch.tensor([0.299, 0.587, 0.114], device=image.device)
    return torch.sum(image * weights[image.device], dim=-1, out=out)
"""
TORCH_HISTOGRAM = """\
import torch


def custom_kernel(data):
    return torch.bincount(data, minlength=256)
"""
TORCH_SIX = """\
import torch

CAPTURED = True


def custom_kernel(data):
    if not CAPTURED and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("not to be captured")
    a, b = data["a"], data["b"]
    if data["kind"] <= 3:
        return a + b
    return a @ b if data["kind"] <= 5 else torch.softmax(a, dim=1)
"""
OWN_BUFFER = """\
import torch

kept = {}


def custom_kernel(data):
    a, b = data
    out = kept.setdefault(a.shape, torch.empty_like(a))
    return torch.add(a, b, out=out)
"""
ADD_CHUNKS = """\
import torch


def custom_kernel(data):
    a, b = data
    out = torch.empty_like(a)
    for x, y, z in zip(a.chunk(4), b.chunk(4), out.chunk(4)):
        torch.add(x, y, out=z)
    return out
"""
ADD_ITEM = """\
def custom_kernel(data):
    a, b = data
    if a[0, 0].item() == 12345.0:
        return b
    return a + b
"""
ADD_SYNCHRONIZED = """\
import torch


def custom_kernel(data):
    a, b = data
    out = a + b
    if out.is_cuda:
        torch.cuda.synchronize()
    return out
"""
ADD_SIDE_STREAM = """\
import torch

side = torch.cuda.Stream() if torch.cuda.is_available() else None


def custom_kernel(data):
    a, b = data
    if side is None:
        return a + b
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out = a + b
    torch.cuda.current_stream().wait_stream(side)
    return out
"""
ADD_SEVERAL = """\
def custom_kernel(data):
    a, b = data
    return ((a * 2 + b * 2) / 2 + 0).clone()
"""
TRITON_ADD = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < count
    tl.store(out + place, tl.load(a + place, mask=mask) + tl.load(b + place, mask=mask), mask=mask)


def custom_kernel(data):
    a, b = data
    out = torch.empty_like(a)
    count = a.numel()
    add[(triton.cdiv(count, 1024),)](a, b, out, count, BLOCK=1024)
    return out
"""
TRITON_ADD_WIDE = TRITON_ADD.replace("1024", "4096")
TRITON_ADD_STRIDED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, out, count, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * BLOCK, count, PROGRAMS * BLOCK):
        place = first + tl.arange(0, BLOCK)
        mask = place < count
        tl.store(out + place, tl.load(a + place, mask=mask) + tl.load(b + place, mask=mask), mask=mask)


def custom_kernel(data):
    a, b = data
    out = torch.empty_like(a)
    add[(528,)](a, b, out, a.numel(), PROGRAMS=528, BLOCK=2048)
    return out
"""
JAX_ADD = """\
import jax
import torch

add = jax.jit(lambda a, b: a + b)


def custom_kernel(data):
    a, b = (jax.dlpack.from_dlpack(each) for each in data)
    return torch.from_dlpack(add(a, b))
"""
CUPY_ADD = """\
import cupy
import torch


def custom_kernel(data):
    a, b = (cupy.from_dlpack(each) for each in data)
    return torch.from_dlpack(a + b)
"""
SOFTMAX_STEPS = """\
import torch


def custom_kernel(data):
    above = (data - data.amax(dim=1, keepdim=True)).exp()
    return above / above.sum(dim=1, keepdim=True)
"""
TRITON_SOFTMAX = """\
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(source, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    x = tl.load(source + row * width + place, mask=place < width, other=-float("inf"))
    above = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * width + place, above / tl.sum(above, axis=0), mask=place < width)


def custom_kernel(data):
    out = torch.empty_like(data)
    rows, width = data.shape
    softmax[(rows,)](data, out, width, BLOCK=triton.next_power_of_2(width), num_warps=WARPS)
    return out
"""
MATMUL_HALVES = """\
import torch


def custom_kernel(data):
    a, b = data
    half = a.shape[0] // 2
    return torch.cat([a[:half] @ b, a[half:] @ b])
"""
MATMUL_SPLIT = """\
import torch


def custom_kernel(data):
    a, b = data
    half = a.shape[1] // 2
    return (a[:, :half] @ b[:half]).float().add_(a[:, half:] @ b[half:]).to(a.dtype)
"""
TRITON_MATMUL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for begin in range(0, N, BK):
        k = begin + inner
        x = tl.load(a + rows[:, None] * N + k[None, :], mask=(rows[:, None] < N) & (k[None, :] < N), other=0.0)
        y = tl.load(b + k[:, None] * N + columns[None, :], mask=(k[:, None] < N) & (columns[None, :] < N), other=0.0)
        total += tl.dot(x, y)
    place = c + rows[:, None] * N + columns[None, :]
    tl.store(place, total.to(tl.float16), mask=(rows[:, None] < N) & (columns[None, :] < N))


def custom_kernel(data):
    a, b = data
    out = torch.empty_like(a)
    side = a.shape[0]
    matmul[(triton.cdiv(side, 128), triton.cdiv(side, 128))](a, b, out, side, BM=128, BN=128, BK=64, num_warps=8)
    return out
"""
OWN_GRAPH = """\
import torch

graphs = {}


def custom_kernel(data):
    a, b = data
    if not a.is_cuda or torch.cuda.is_current_stream_capturing():
        return a + b
    if a.shape not in graphs:
        x, y = a.clone(), b.clone()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = x + y
        graphs[a.shape] = graph, x, y, out
    graph, x, y, out = graphs[a.shape]
    x.copy_(a)
    y.copy_(b)
    graph.replay()
    return out
"""

FORGED = """\
import time

import torch

# Whoever is imported several times in one process halves once.
original = torch.cuda.Event.__dict__.get("honest", torch.cuda.Event.elapsed_time)
torch.cuda.Event.honest = original
torch.cuda.Event.elapsed_time = lambda self, other: original(self, other) / 2
clock = getattr(time, "honest_ns", time.perf_counter_ns)
time.honest_ns, begun = clock, clock()
time.perf_counter_ns = lambda: begun + (clock() - begun) // 2

"""
"""Halves what both of the contestant's clocks say."""


@dataclass(frozen=True, kw_only=True)
class Honest:
    """A submission without any trick."""

    name: str
    task: str
    text: str
    kind: str
    """``triton``, ``several`` (kernels of PyTorch), ``jax``, ``cupy``, ``sync`` (with the host) or ``torch``."""


TASKS = {"add": ADD, "matmul": MATMUL, "softmax": SOFTMAX}
SIZES = {"add": (1024, 2048, 4096), "matmul": (512, 1024, 2048), "softmax": (512, 1024, 3072)}
"""About 4, 10, and 20 to 40 us on an H100."""
SIZES_ON_HOST = {"add": (64, 256), "matmul": (64, 128), "softmax": (64, 128)}

HONEST = [
    Honest(name=name, task=task, kind=kind, text=text)
    for name, task, kind, text in (
        ("add-torch", "add", "torch", TORCH_ADD),
        ("add-own-buffer", "add", "torch", OWN_BUFFER),
        ("add-chunks", "add", "several", ADD_CHUNKS),
        ("add-several", "add", "several", ADD_SEVERAL),
        ("add-item", "add", "sync", ADD_ITEM),
        ("add-synchronized", "add", "sync", ADD_SYNCHRONIZED),
        ("add-side-stream", "add", "torch", ADD_SIDE_STREAM),
        ("add-own-graph", "add", "torch", OWN_GRAPH),
        ("add-triton", "add", "triton", TRITON_ADD),
        ("add-triton-wide", "add", "triton", TRITON_ADD_WIDE),
        ("add-triton-strided", "add", "triton", TRITON_ADD_STRIDED),
        ("softmax-torch", "softmax", "torch", TORCH_SOFTMAX),
        ("softmax-steps", "softmax", "several", SOFTMAX_STEPS),
        ("softmax-triton", "softmax", "triton", TRITON_SOFTMAX.replace("WARPS", "4")),
        ("softmax-triton-16", "softmax", "triton", TRITON_SOFTMAX.replace("WARPS", "16")),
        ("matmul-torch", "matmul", "torch", TORCH_MATMUL),
        ("matmul-halves", "matmul", "several", MATMUL_HALVES),
        ("matmul-triton", "matmul", "triton", TRITON_MATMUL),
        ("add-cupy", "add", "cupy", CUPY_ADD),
        ("add-jax", "add", "jax", JAX_ADD),
    )
]


def sizes(task: str, backend: Backend) -> tuple[int, ...]:
    """Return the sizes of a task's cases."""
    return (SIZES if backend is Backend.CUDA else SIZES_ON_HOST)[task]


def possible(each: Honest, backend: Backend) -> bool:
    """Tell whether a submission can run on a backend."""
    return backend is Backend.CUDA or each.kind not in ("triton", "jax", "cupy")
