"""Kernels with one planted fault each, and good ones, for the profiler's rules: ``profile_jobs.py`` profiles them.

They were written before the rules. The second set was written after them, and is reported apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

N = 1 << 24
SIDE = 4096
SMS = 132
"""Multiprocessors of an H100 or H200 (SXM)."""


@dataclass(frozen=True)
class Kernel:
    """A kernel to profile.

    Args:
        fault: What a profile should name; empty for a good kernel.
        build: Makes inputs, compiles, and returns the call with the bytes of its inputs and answers.
    """

    fault: str
    build: Callable[[], tuple[Callable[[], Any], int]]


def compiled(source: str, name: str) -> Any:
    import torch

    return torch.cuda._compile_kernel('extern "C" ' + source, name)


def cuda(source: str, name: str, grid: Any, block: Any, arguments: Callable[[], list[Any]]) -> Any:
    """Return the ``build`` of a CUDA kernel; its tensors are its inputs and answers."""

    def build() -> tuple[Callable[[], Any], int]:
        kernel, values = compiled(source, name), arguments()
        whole = tuple(tuple(each) + (1,) * (3 - len(each)) for each in (grid, block))
        nbytes = sum(each.numel() * each.element_size() for each in values if hasattr(each, "numel"))
        return lambda: kernel(grid=whole[0], block=whole[1], args=values), nbytes

    return build


def floats(*counts: int, dtype: str = "float32") -> list[Any]:
    import torch

    return [torch.rand(count, device="cuda").to(getattr(torch, dtype)) for count in counts]


UNCOALESCED = r"""
__global__ void uncoalesced(const float* a, float* o, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  o[(long)x * n + y] = a[(long)x * n + y] + 1.0f;
}"""
BANKS = r"""
__global__ void bank_conflicts(const float* a, float* o, int n) {
  __shared__ float tile[32][32];
  int x = threadIdx.x, y = threadIdx.y;
  const float* from = a + ((long)blockIdx.y * 32) * n + blockIdx.x * 32;
  float sum = from[(long)y * n + x];
  for (int round = 0; round < 32; ++round) {
    tile[x][y] = sum; __syncthreads();
    sum += tile[(x + round) & 31][y]; __syncthreads();
  }
  o[((long)blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x] = sum;
}"""
SPILLS = r"""
__global__ void __launch_bounds__(1024, 2) spills(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v[96];
#pragma unroll
  for (int k = 0; k < 96; ++k) v[k] = a[(i + k * 4099) & (n - 1)];
#pragma unroll
  for (int round = 0; round < 3; ++round)
#pragma unroll
    for (int k = 0; k < 96; ++k) v[k] = v[k] * v[(k * 7 + 13) % 96] + v[(k * 5 + round) % 96];
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 96; ++k) sum += v[k];
  o[i] = sum;
}"""
LOW_OCCUPANCY = r"""
__global__ void low_occupancy(const float* a, float* o, int n) {
  __shared__ float room[12000];
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    room[threadIdx.x * 181 % 12000] = a[i]; o[i] = room[threadIdx.x * 181 % 12000] * 2.0f;
  }
}"""
TAIL = r"""
__global__ void __launch_bounds__(1024, 1) tail_wave(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[i & (n - 1)], y = x + 1.0f, z = x + 2.0f, w = x + 3.0f;
  for (int k = 0; k < 20000; ++k) { x = x * 0.999f + y; y = y * 0.998f + z; z = z * 0.997f + w; w = w * 0.996f + x; }
  o[i] = x + y + z + w;
}"""
TINY = r"""
__global__ void launch_bound(float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = a[i] * 0.99f + 1.0f;
}"""
THRASH = r"""
__global__ void l2_thrash(const float4* a, float* o, int n) {
  float sum = 0; int stride = gridDim.x * blockDim.x;
  for (int round = 0; round < 4; ++round)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
      float4 v = a[i]; sum += v.x + v.y * v.z + v.w * round;
    }
  o[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""
SIMT = r"""
__global__ void idle_tensor_cores(const unsigned short* a, const unsigned short* b, float* o, int n) {
  __shared__ float left[64][17], right[16][65];
  int t = threadIdx.x, tx = t % 16, ty = t / 16; float sum[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    for (int e = t; e < 1024; e += 256) {
      float x, y;
      unsigned short h = a[(long)(blockIdx.y * 64 + e / 16) * n + k + e % 16];
      unsigned short g = b[(long)(k + e / 64) * n + blockIdx.x * 64 + e % 64];
      asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(g));
      left[e / 16][e % 16] = x; right[e / 64][e % 64] = y;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 16; ++q)
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[r][c] += left[ty * 4 + r][q] * right[q][tx * 4 + c];
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) o[(long)(blockIdx.y * 64 + ty * 4 + r) * n + blockIdx.x * 64 + tx * 4 + c] = sum[r][c];
}"""
DIVERGENCE = r"""
__global__ void divergence(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; float x = a[i];
  int steps = 8 + (threadIdx.x * 37 % 32) * 24;
  for (int k = 0; k < steps; ++k) x = x * 0.999f + sinf(x) * 0.5f;
  o[i] = x;
}"""
ATOMICS = r"""
__global__ void atomics(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; atomicAdd(&o[((int)(a[i] * 7.0f)) & 7], a[i]);
}"""
FEW = r"""
__global__ void too_few_blocks(const float* a, float* o, int n) {
  int stride = gridDim.x * blockDim.x; float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) sum += a[i];
  o[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""
REDUNDANT = r"""
__global__ void redundant_loads(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; float sum = 0;
#pragma unroll 8
  for (int k = -64; k <= 64; ++k) { int j = i + k; if (j >= 0 && j < n) sum += __ldcg(a + j) * (1.0f / (65 + k)); }
  o[i] = sum;
}"""
DOUBLES = r"""
__global__ void wrong_dtype(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; double x = a[i];
  for (int k = 0; k < 64; ++k) x = x * 0.999 + 0.5 * x * x - 0.25;
  o[i] = x;
}"""
COPY = r"""
__global__ void memory_bound(const float4* a, float4* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float4 v = a[i]; v.x += 1.0f; o[i] = v; }
}"""


def launch_bound() -> tuple[Callable[[], Any], int]:
    kernel, (a,) = compiled(TINY, "launch_bound"), floats(4096)

    def call() -> None:
        for _ in range(40):
            kernel(grid=(16, 1, 1), block=(256, 1, 1), args=[a, 4096])

    return call, 2 * a.numel() * 4


def halves() -> list[Any]:
    import torch

    made = [torch.randn(2048, 2048, device="cuda").half() for _ in range(2)]
    return [*made, torch.empty(2048, 2048, device="cuda")]


FAULTY = {
    "uncoalesced": Kernel(
        "uncoalesced",
        cuda(UNCOALESCED, "uncoalesced", (SIDE // 256, SIDE), (256,), lambda: [*floats(N, N), SIDE]),
    ),
    "bank_conflicts": Kernel(
        "bank_conflicts",
        cuda(BANKS, "bank_conflicts", (128, 128), (32, 32), lambda: [*floats(N, N), SIDE]),
    ),
    "spills": Kernel(
        "spills", cuda(SPILLS, "spills", (1024,), (1024,), lambda: [*floats(1 << 20, 1 << 20), 1 << 20])
    ),
    "low_occupancy": Kernel(
        "occupancy", cuda(LOW_OCCUPANCY, "low_occupancy", (SMS * 4,), (64,), lambda: [*floats(N, N), N])
    ),
    "tail_wave": Kernel(
        "tail_wave",
        cuda(TAIL, "tail_wave", (SMS * 2 + 8,), (1024,), lambda: [*floats(1 << 18, SMS * 3 << 10), 1 << 18]),
    ),
    "launch_bound": Kernel("launch_bound", launch_bound),
    "l2_thrash": Kernel(
        "l2_thrash",
        cuda(THRASH, "l2_thrash", (SMS * 8,), (256,), lambda: [*floats(4 * N, SMS << 11), N]),
    ),
    "idle_tensor_cores": Kernel(
        "idle_tensor_cores", cuda(SIMT, "idle_tensor_cores", (32, 32), (256,), lambda: [*halves(), 2048])
    ),
    "divergence": Kernel(
        "divergence",
        cuda(DIVERGENCE, "divergence", (4096,), (256,), lambda: [*floats(1 << 20, 1 << 20), 1 << 20]),
    ),
    "atomics": Kernel("atomics", cuda(ATOMICS, "atomics", (N // 256,), (256,), lambda: [*floats(N, 8), N])),
    "too_few_blocks": Kernel(
        "too_few_blocks", cuda(FEW, "too_few_blocks", (8,), (1024,), lambda: [*floats(N, 8192), N])
    ),
    "redundant_loads": Kernel(
        "redundant_loads", cuda(REDUNDANT, "redundant_loads", (N // 256,), (256,), lambda: [*floats(N, N), N])
    ),
    "wrong_dtype": Kernel(
        "wrong_dtype", cuda(DOUBLES, "wrong_dtype", (N // 256,), (256,), lambda: [*floats(N, N), N])
    ),
    "memory_bound": Kernel(
        "memory_bound", cuda(COPY, "memory_bound", (N // 256,), (256,), lambda: [*floats(4 * N, 4 * N), N])
    ),
}

PADDED = r"""
__global__ void transpose(const float* a, float* o, int n) {
  __shared__ float tile[32][33];
  int x = threadIdx.x, y = threadIdx.y;
  for (int k = 0; k < 32; k += 8) tile[y + k][x] = a[((long)blockIdx.y * 32 + y + k) * n + blockIdx.x * 32 + x];
  __syncthreads();
  for (int k = 0; k < 32; k += 8) o[((long)blockIdx.x * 32 + y + k) * n + blockIdx.y * 32 + x] = tile[x][y + k];
}"""
REDUCE = r"""
__global__ void reduce(const float4* a, float* o, int n) {
  __shared__ float parts[32]; float sum = 0; int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    float4 v = a[i]; sum += (v.x + v.y) + (v.z + v.w); }
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    if (!threadIdx.x) atomicAdd(o, sum);
  }
}"""
HISTOGRAM = r"""
__global__ void histogram(const uint4* a, unsigned* o, int n) {
  __shared__ unsigned counts[8][257]; int t = threadIdx.x, stride = gridDim.x * blockDim.x;
  for (int k = t; k < 8 * 257; k += blockDim.x) counts[k / 257][k % 257] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += stride) {
    uint4 v = a[i]; unsigned words[4] = {v.x, v.y, v.z, v.w};
    for (int w = 0; w < 4; ++w)
      for (int s = 0; s < 32; s += 8) atomicAdd(&counts[t / 32][words[w] >> s & 255], 1u);
  }
  __syncthreads();
  for (int k = t; k < 256; k += blockDim.x) {
    unsigned sum = 0; for (int w = 0; w < 8; ++w) sum += counts[w][k]; atomicAdd(&o[k], sum); }
}"""
STENCIL = r"""
__global__ void stencil(const float* a, float* o, int n) {
  __shared__ float part[256 + 16]; int i = blockIdx.x * 256 + threadIdx.x;
  part[threadIdx.x + 8] = a[i];
  if (threadIdx.x < 8) part[threadIdx.x] = a[i >= 8 ? i - 8 : 0];
  if (threadIdx.x >= 248) part[threadIdx.x + 16] = a[i + 8 < n ? i + 8 : n - 1];
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = 0; k <= 16; ++k) sum += part[threadIdx.x + k] * (0.01f + k);
  o[i] = sum;
}"""
POLYNOMIAL = r"""
__global__ void polynomial(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[i], p = x, q = x + 1.0f, r = x + 2.0f, s = x + 3.0f;
#pragma unroll 16
  for (int k = 0; k < 512; ++k) { p = p * x + 0.1f; q = q * x + 0.2f; r = r * x + 0.3f; s = s * x + 0.4f; }
  o[i] = p + q + r + s;
}"""


def histogram() -> list[Any]:
    import torch

    return [
        torch.randint(0, 256, (1 << 28,), device="cuda", dtype=torch.uint8),
        torch.zeros(256, device="cuda", dtype=torch.int32),
        1 << 24,
    ]


def by_torch(make: Callable[[Any], tuple[Callable[[], Any], list[Any]]]) -> Any:
    """Return the ``build`` of a call of PyTorch; ``make`` returns it with its inputs."""

    def build() -> tuple[Callable[[], Any], int]:
        import torch

        call, inputs = make(torch)
        answer = call()
        return call, sum(each.numel() * each.element_size() for each in [*inputs, answer])

    return build


def products(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    a, b = (torch.randn(8192, 8192, device="cuda").half() for _ in range(2))
    return lambda: a @ b, [a, b]


def normed(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    a = torch.randn(16384, 8192, device="cuda").half()
    return lambda: torch.nn.functional.layer_norm(a, (8192,)), [a]


def positive(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    a = torch.randn(1 << 27, device="cuda")
    return lambda: a.relu(), [a]


def softmax(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    a = torch.randn(16384, 4096, device="cuda")
    return lambda: torch.softmax(a, -1), [a]


def triton_fma(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    from replay_triton import fma

    a, b, c = (torch.randn(1 << 26, device="cuda") for _ in range(3))
    out = torch.empty_like(a)

    def call() -> Any:
        fma[(a.numel() // 4096,)](a, b, c, out, a.numel(), B=4096, num_warps=8)
        return out

    return call, [a, b, c]


GOOD = {
    "transpose": Kernel(
        "", cuda(PADDED, "transpose", (256, 256), (32, 8), lambda: [*floats(4 * N, 4 * N), 8192])
    ),
    "reduce": Kernel("", cuda(REDUCE, "reduce", (SMS * 4,), (512,), lambda: [*floats(4 * N, 1), N])),
    "histogram": Kernel("", cuda(HISTOGRAM, "histogram", (SMS * 8,), (256,), histogram)),
    "stencil": Kernel(
        "", cuda(STENCIL, "stencil", (4 * N // 256,), (256,), lambda: [*floats(4 * N, 4 * N), 4 * N])
    ),
    "polynomial": Kernel("", cuda(POLYNOMIAL, "polynomial", (N // 256,), (256,), lambda: [*floats(N, N), N])),
    "matmul": Kernel("", by_torch(products)),
    "layer_norm": Kernel("", by_torch(normed)),
    "relu": Kernel("", by_torch(positive)),
    "softmax": Kernel("", by_torch(softmax)),
    "triton_fma": Kernel("", by_torch(triton_fma)),
}
RECORDS = r"""
__global__ void records(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) o[i] = a[(long)i * 8 + 3] * 2.0f + a[(long)i * 8 + 5];
}"""
STRIDED = r"""
__global__ void strided_banks(const float* a, float* o, int n) {
  __shared__ float part[4096]; int t = threadIdx.x; long base = (long)blockIdx.x * 4096; float sum = 0;
  for (int k = t; k < 4096; k += 256) part[k] = a[base + k];
  __syncthreads();
  for (int round = 0; round < 64; ++round) sum += part[(t * 16 + round) & 4095];
  o[(long)blockIdx.x * 256 + t] = sum;
}"""
STATE = r"""
__global__ void __launch_bounds__(1024, 2) large_state(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; float s[64];
#pragma unroll
  for (int k = 0; k < 64; ++k) s[k] = a[((long)i * 3 + k * 7919) & (n - 1)];
  for (int round = 0; round < 8; ++round) {
#pragma unroll
    for (int k = 0; k < 64; ++k) s[k] = s[k] * s[(k + 17) % 64] + s[(k + 5) % 64];
  }
#pragma unroll
  for (int k = 1; k < 64; ++k) s[0] += s[k];
  o[i] = s[0];
}"""
ROWS = r"""
__global__ void long_rows(const float* a, float* o, int n) {
  __shared__ float parts[1024]; const float* row = a + (long)blockIdx.x * n; float sum = 0;
  for (int i = threadIdx.x; i < n; i += 1024) sum += expf(row[i]);
  parts[threadIdx.x] = sum; __syncthreads();
  for (int d = 512; d; d >>= 1) { if (threadIdx.x < d) parts[threadIdx.x] += parts[threadIdx.x + d]; __syncthreads(); }
  float scale = 1.0f / parts[0];
  for (int i = threadIdx.x; i < n; i += 1024) o[(long)blockIdx.x * n + i] = expf(row[i]) * scale;
}"""
CHASE = r"""
__global__ void one_warp(const int* a, int* o, int n) {
  __shared__ int room[11000]; int i = blockIdx.x * blockDim.x + threadIdx.x, x = i;
  for (int k = 0; k < 64; ++k) { room[(threadIdx.x * 7 + k) % 11000] = x; x = (x * 5 + a[x & (n - 1)]) & (n - 1); }
  o[i] = x + room[threadIdx.x];
}"""
SINES = r"""
__global__ void sines(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; double x = a[i]; o[i] = (float)(exp(-x) * cos(x * 1.5));
}"""
COLLATZ = r"""
__global__ void collatz(const int* a, int* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; unsigned long long x = a[i] + 1; int steps = 0;
  while (x != 1 && steps < 2000) { x = x & 1 ? 3 * x + 1 : x >> 1; ++steps; }
  o[i] = steps;
}"""
TRIAD = r"""
__global__ void triad(const float4* a, const float4* b, float4* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 x = a[i], y = b[i];
  o[i] = make_float4(x.x + 3 * y.x, x.y + 3 * y.y, x.z + 3 * y.z, x.w + 3 * y.w);
}"""


def numbers(*counts: int) -> list[Any]:
    import torch

    return [torch.randint(0, 1 << 22, (count,), device="cuda", dtype=torch.int32) for count in counts]


def sums(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    a = torch.randn(8192, 16384, device="cuda")
    return lambda: a.sum(-1), [a]


def attention(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    made = [torch.randn(8, 16, 4096, 128, device="cuda").half() for _ in range(3)]
    return lambda: torch.nn.functional.scaled_dot_product_attention(*made), made


def gelu(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    a = torch.randn(1 << 27, device="cuda").half()
    return lambda: torch.nn.functional.gelu(a), [a]


def single_product(torch: Any) -> tuple[Callable[[], Any], list[Any]]:
    torch.backends.cuda.matmul.allow_tf32 = True
    a, b = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    return lambda: a @ b, [a, b]


SECOND = {
    "records": Kernel(
        "uncoalesced", cuda(RECORDS, "records", (N // 256,), (256,), lambda: [*floats(8 * N, N), N])
    ),
    "strided_banks": Kernel(
        "bank_conflicts",
        cuda(STRIDED, "strided_banks", (4096,), (256,), lambda: [*floats(4096 * 4096, 1 << 20), N]),
    ),
    "large_state": Kernel(
        "spills", cuda(STATE, "large_state", (1024,), (1024,), lambda: [*floats(1 << 20, 1 << 20), 1 << 20])
    ),
    "long_rows": Kernel(
        "too_few_blocks", cuda(ROWS, "long_rows", (4,), (1024,), lambda: [*floats(1 << 22, 1 << 22), 1 << 20])
    ),
    "one_warp": Kernel(
        "occupancy", cuda(CHASE, "one_warp", (SMS * 16,), (64,), lambda: [*numbers(N, SMS << 10), N])
    ),
    "sines": Kernel("wrong_dtype", cuda(SINES, "sines", (N // 256,), (256,), lambda: [*floats(N, N), N])),
    "collatz": Kernel(
        "divergence", cuda(COLLATZ, "collatz", (8192,), (256,), lambda: [*numbers(1 << 21, 1 << 21), 0])
    ),
    "sums": Kernel("", by_torch(sums)),
    "attention": Kernel("", by_torch(attention)),
    "gelu": Kernel("", by_torch(gelu)),
    "single_product": Kernel("", by_torch(single_product)),
    "triad": Kernel("", cuda(TRIAD, "triad", (N // 256,), (256,), lambda: [*floats(4 * N, 4 * N, 4 * N), N])),
}
KERNELS = {**FAULTY, **GOOD, **SECOND}
