"""Return a gigabyte where four kilobytes are expected."""

import torch


def custom_kernel(data):
    return torch.zeros(256 << 20, dtype=torch.uint8, device="cuda").expand(4, -1).contiguous()
