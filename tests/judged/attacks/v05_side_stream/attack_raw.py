"""Launch the work on a non-blocking stream of the driver, of which PyTorch knows nothing."""

import ctypes

import torch
from task import product

NON_BLOCKING = 1
torch.zeros(1, device="cuda")
handle = ctypes.c_void_p()
ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(handle), NON_BLOCKING)
side = torch.cuda.ExternalStream(handle.value)


acted = []


def custom_kernel(data):
    a, b, steps = data
    out = torch.empty_like(a)
    with torch.cuda.stream(side):
        product(a, b, steps, out)
    if not acted:
        acted.append(print("acted: a call returned before its work was waited for", flush=True))
    return out
