#!POPCORN leaderboard all_reduce
"""The sum over all GPU ranks, by a Triton kernel that reads the memory of all of them."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 1024
BUFFERS = {}


@triton.jit
def sum_kernel(addresses, output, size, WORLD_SIZE: tl.constexpr, BLOCK: tl.constexpr):
    # Loads from another rank's buffer go over the link.
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for rank in tl.static_range(WORLD_SIZE):
        buffer = tl.load(addresses + rank).to(tl.pointer_type(tl.float32))
        total += tl.load(buffer + at, mask=inside, other=0.0)
    tl.store(output + at, total, mask=inside)


def buffer_of(size: int):
    """Return a buffer that all ranks can read, its handle, and where this rank sees the buffer of each.

    All ranks have to make it in the same call.
    """
    world_size = dist.get_world_size()
    if (size, world_size) not in BUFFERS:
        device = torch.device("cuda", torch.cuda.current_device())
        buffer = symmetric_memory.empty(size, dtype=torch.float32, device=device)
        handle = symmetric_memory.rendezvous(buffer, dist.group.WORLD)
        views = [handle.get_remote_tensor(rank, (size,), torch.float32) for rank in range(world_size)]
        addresses = torch.tensor([view.data_ptr() for view in views], device=device)
        BUFFERS[size, world_size] = buffer, handle, addresses
    return BUFFERS[size, world_size]


def custom_kernel(data: input_t) -> output_t:
    size = data.numel()
    buffer, handle, addresses = buffer_of(size)
    output = torch.empty_like(data)
    buffer.copy_(data)
    handle.barrier()  # all buffers are written
    sum_kernel[(triton.cdiv(size, BLOCK),)](addresses, output, size, WORLD_SIZE=len(addresses), BLOCK=BLOCK)
    handle.barrier()  # all buffers are read: the next call may write them
    return output
