"""Ends with a second kernel as well, which begins once the first is over."""

import torch
from task import COMMON, MARKS, Kernel

kernel = Kernel()
after = kernel._cupy.RawKernel(
    COMMON + 'extern "C" __global__ void after(u64* marks) { for (int k = 0; k < 8; ++k) marks[k] = 0; }', "after"
)


def custom_kernel(data):
    out, _ = kernel(data)
    marks = torch.empty(MARKS, dtype=torch.int64, device=out.device)
    with kernel._cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        after((1,), (1,), (marks.data_ptr(),))
    return out, marks
