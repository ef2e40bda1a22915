"""The kernels of the harness: made ready by the driver in each process, without a compiler.

The source is ``device_code.cu``; ``device_code.ptx`` is made from it by ``scripts/make-device-code``.
"""

from __future__ import annotations

import ctypes
import pkgutil
from typing import Any

import torch

BLOCK_BYTES = 16
"""What the pad is made in."""
THREADS = 256
MOST_BLOCKS = 2048
MOST_BLOCKS_OF_COPY = 256
LONGEST_WAIT_CYCLES = 60_000_000_000
"""Half a minute: by then the judge is gone, or has given up."""


def compiled() -> bytes:
    """Return the PTX; the harness may lie in a zip."""
    text = pkgutil.get_data(__package__ or "", "device_code.ptx")
    assert text is not None
    return text


class DeviceFault(RuntimeError):
    """The driver refused what was asked of it."""


class DeviceCode:
    """The kernels in the context of this process, which PyTorch has made.

    Args:
        library: The driver, for tests.
    """

    def __init__(self, library: Any = None) -> None:
        # A context must be there and current.
        self._key = torch.zeros(1, dtype=torch.int64, device="cuda")
        self._driver = library or ctypes.CDLL("libcuda.so.1")
        module = ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(module), compiled() + b"\0"))
        self._kernels = {
            name: self._found(module, name) for name in (b"toggle", b"copy", b"wait_for", b"tell")
        }

    def toggle(self, buffer: torch.Tensor, key: int | None) -> None:
        """Cover a buffer of bytes, or uncover it; it has whole blocks of :data:`BLOCK_BYTES`.

        Without a key it is the one that came with the word that was waited for last. The device is not waited for.
        """
        blocks = buffer.numel() // BLOCK_BYTES
        if blocks:
            grid = min(MOST_BLOCKS, -(-blocks // THREADS))
            there = self._key.data_ptr() if key is None else 0
            self._launch(b"toggle", grid, THREADS, buffer.data_ptr(), blocks, key or 0, there)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy bytes to a buffer of as many, of which each lies on the device or in pinned memory.

        The device is not waited for, unless the source lies on the host.
        """
        if not source.is_cuda:
            target.copy_(source)
        elif source.numel():
            grid = min(MOST_BLOCKS_OF_COPY, -(-source.numel() // (THREADS * BLOCK_BYTES)))
            self._launch(b"copy", grid, THREADS, target.data_ptr(), source.data_ptr(), source.numel())

    def wait_for(self, ready: int, go: int, key: int, number: int) -> None:
        """Have the stream write a number to ``ready``, wait until the host has written it to ``go``, and take a key.

        All three are addresses of 8 bytes in pinned memory.
        """
        found = self._key.data_ptr()
        self._launch(b"wait_for", 1, 1, ready, go, number, LONGEST_WAIT_CYCLES, key, found)

    def tell(self, address: int, number: int) -> None:
        """Have the stream write a number of 8 bytes to an address of pinned memory, after all before it."""
        self._launch(b"tell", 1, 1, address, number)

    def _launch(self, name: bytes, grid: int, threads: int, *arguments: int) -> None:
        values = [ctypes.c_uint64(each) for each in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        kernel = self._kernels[name]
        self._check(self._driver.cuLaunchKernel(kernel, grid, 1, 1, threads, 1, 1, 0, stream, pointers, None))

    def _found(self, module: ctypes.c_void_p, name: bytes) -> ctypes.c_void_p:
        kernel = ctypes.c_void_p()
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(kernel), module, name))
        return kernel

    def _check(self, code: int) -> None:
        if code != 0:
            raise DeviceFault(f"the CUDA driver says {code} to the harness's own kernels")
