"""The memory of a GPU, as the driver and PyTorch count it."""

from __future__ import annotations

import torch


class GpuMemory:
    """The first GPU that this process sees."""

    def free_and_total(self) -> tuple[int, int]:
        """Return the driver's figures."""
        free, total = torch.cuda.mem_get_info()
        return int(free), int(total)

    def held(self) -> int:
        """Return the figure of PyTorch's allocator."""
        return int(torch.cuda.memory_reserved())

    def take(self, size: int) -> None:
        """Leave a block in PyTorch's allocator, which does not release it by itself."""
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        del block

    def limit(self, share: float) -> None:
        """Limit PyTorch's allocator."""
        torch.cuda.set_per_process_memory_fraction(share)
