"""What capturing calls in CUDA graphs needs of PyTorch, and why it fails."""

from __future__ import annotations

import contextlib

import torch

RUNTIME_MODULES = ("jax_plugins.",)
"""Prefixes of modules that reveal a runtime on the device that must not be recorded.

XLA queues host functions that free their arguments. In a recording they run never or twice: XLA then waits for
them, or its memory is corrupted.
"""
PER_THREAD_STREAM = 2
"""``cudaStreamPerThread``. Code compiled for it uses it unless it names a stream; unlike the default stream it can be
recorded."""


def use_per_thread_stream() -> None:
    """Make PyTorch use the per-thread stream, like CUDA C++ that is compiled for it and names no stream.

    On the default stream the two would wait for each other at every call.
    """
    torch.cuda.init()
    torch.cuda.set_stream(torch.cuda.ExternalStream(PER_THREAD_STREAM))


def clean_up() -> None:
    """Leave the device as it was before a recording that was cut off."""
    # Its error stays until the next call reports it.
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()
    # Otherwise the generator refuses to draw, because the recording never ended.
    with contextlib.suppress(RuntimeError, AttributeError):
        fresh = torch.Generator("cuda")
        fresh.manual_seed(torch.initial_seed())
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generator.graphsafe_set_state(fresh.graphsafe_get_state())
