"""What goes in and what comes out, and how a CUDA kernel is launched, which is not what this task is about."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]
output_t = tuple[torch.Tensor, torch.Tensor]
MARKS = 8
"""Numbers that a kernel answers beside its result: nobody checks them, an attack says by them what it did."""

COMMON = r"""
typedef unsigned long long u64;
typedef unsigned int u32;
#define ARGS const float4* a, const float4* b, const float4* c, float4* o, u64* marks, long long n, long long rounds
#define PLACE (blockIdx.x * 256ll + threadIdx.x)
__device__ __forceinline__ float4 work(float4 x, float4 y, float4 z, long long rounds) {
  for (long long k = 0; k < rounds; ++k)
    x = make_float4(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y), fmaf(x.z, y.z, z.z), fmaf(x.w, y.w, z.w));
  return x;
}
__device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
"""
HONEST = r"""
extern "C" __global__ void run(ARGS) {
  long long i = PLACE;
  if (i < 8) marks[i] = 0;
  if (i < n) o[i] = work(a[i], b[i], c[i], rounds);
}
"""


def is_in_window(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor lies where captured calls find their inputs: other addresses are nobody's later on."""
    return 0x6000_0000_0000 <= tensor.data_ptr() < 0x7000_0000_0000


class Kernel:
    """A kernel ``run`` that is launched on PyTorch's current stream, with one thread for four elements."""

    def __init__(self, source: str = HONEST) -> None:
        import cupy

        self._cupy = cupy
        self.raw = cupy.RawKernel(COMMON + source, "run")

    def __call__(self, data: input_t, *more: object, out: torch.Tensor | None = None) -> output_t:
        """Answer an input; ``more`` are further arguments, each of eight bytes."""
        a, b, c, rounds = data
        out = torch.empty_like(a) if out is None else out
        marks = torch.empty(MARKS, dtype=torch.int64, device=a.device)
        given = (a, b, c, out, marks, a.numel() // 4, rounds, *more)
        values = tuple(each.data_ptr() if isinstance(each, torch.Tensor) else each for each in given)
        with self._cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            self.raw((-(-a.numel() // 1024),), (256,), values)
        return out, marks
