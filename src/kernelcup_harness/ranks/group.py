"""A group of processes that communicate by ``torch.distributed``, one for each GPU rank."""

from __future__ import annotations

import datetime
import os
import socket

import torch
import torch.distributed as dist

from kernelcup_harness.protocol import Backend

ADDRESS, PORT = "127.0.0.1", "12356"
"""What a submission that makes groups of its own finds in the variables ``MASTER_ADDR`` and ``MASTER_PORT``."""
TIMEOUT_S = 600
"""Of a collective: stages end earlier."""


def join(rank: int, world_size: int, port: int) -> None:
    """Make this process a rank of a group, and communicate once: what only the first call needs is done then.

    Args:
        rank: This process; one that the group has no place for only leaves the one that it is in.
        world_size: The number of processes, which all call this with the same ``port``.
        port: Where they find each other, see :func:`free_port`.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    if rank >= world_size:
        return
    os.environ.update(variables(rank, world_size))
    on_gpu = os.environ.get("KERNELCUP_BACKEND") == Backend.CUDA.value
    device = torch.device("cuda", rank) if on_gpu else None
    timeout = datetime.timedelta(seconds=TIMEOUT_S)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=dist.TCPStore(ADDRESS, port, world_size, is_master=rank == 0, timeout=timeout),
        rank=rank,
        world_size=world_size,
        timeout=timeout,
        device_id=device,
    )
    dist.all_reduce(torch.zeros(1, device=device))
    if on_gpu:
        torch.cuda.synchronize()


def free_port() -> int:
    """Return a port of the loopback that nothing uses now."""
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        return int(taken.getsockname()[1])


def device_names(rank: int) -> dict[str, str]:
    """Return the names that devices have on the wire: the rank's own is the only GPU."""
    return {"cuda:0": "another GPU", f"cuda:{rank}": "cuda:0"}


def variables(rank: int, world_size: int) -> dict[str, str]:
    """Return the variables by which programs find their place in a group."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": ADDRESS,
        "MASTER_PORT": PORT,
    }
