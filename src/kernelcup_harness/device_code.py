"""The kernels of the harness, compiled by the driver in each process, without a compiler.

The sources are ``device_code.cu`` and ``commitment.cu``; the PTX beside them is made by ``scripts/make-device-code``.
The second takes the driver a tenth of a second, so it is loaded only if a call is armed.
"""

from __future__ import annotations

import ctypes
import pkgutil
from collections.abc import Iterable
from typing import Any

import torch

BLOCK_BYTES = 16
"""Size of the blocks of the pad."""
THREADS = 256
MOST_BLOCKS = 2048
MOST_BLOCKS_OF_COPY = 256
DIGEST_BYTES = 16
CHUNK = 32 << 10
"""Most bytes of a tensor under one digest in the tree of a commitment."""
LEAST_CHUNKS = 1024
LONGEST_WAIT_CYCLES = 60_000_000_000
"""About half a minute: by then the judge is gone or has given up."""


MODULES = {"device_code": ("toggle", "copy", "wait_for"), "commitment": ("absorb", "tell")}
"""Kernels by file."""


def compiled(name: str) -> bytes:
    """Return the PTX of a file; the harness may lie in a zip."""
    text = pkgutil.get_data(__package__ or "", f"{name}.ptx")
    assert text is not None
    return text


class DeviceFault(RuntimeError):
    """The driver refused a call."""


class DeviceCode:
    """The kernels in this process's context, which PyTorch has created.

    Args:
        library: The driver, for tests.
    """

    def __init__(self, library: Any = None) -> None:
        # This creates the context and makes it current.
        self._key = torch.zeros(1, dtype=torch.int64, device="cuda")
        self._driver = library or ctypes.CDLL("libcuda.so.1")
        self._kernels: dict[str, ctypes.c_void_p] = {}
        self._load("device_code")
        self._digests = torch.empty(LEAST_CHUNKS * DIGEST_BYTES, dtype=torch.uint8, device="cuda")
        self._chunks = 0
        self._told = torch.zeros(3, dtype=torch.int64, device="cuda")

    def toggle(self, buffer: torch.Tensor, key: int | None) -> None:
        """Mask or unmask a buffer of bytes, which has whole blocks of :data:`BLOCK_BYTES`.

        Without a key it uses the key received by the last :meth:`wait_for`. Does not wait for the device.
        """
        blocks = buffer.numel() // BLOCK_BYTES
        if blocks:
            grid = min(MOST_BLOCKS, -(-blocks // THREADS))
            there = self._key.data_ptr() if key is None else 0
            self._launch("toggle", grid, THREADS, buffer.data_ptr(), blocks, key or 0, there)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy bytes to a buffer of equal size; both lie on the device or in pinned memory.

        Does not wait for the device, unless the source lies on the host.
        """
        if not source.is_cuda:
            target.copy_(source)
        elif source.numel():
            grid = min(MOST_BLOCKS_OF_COPY, -(-source.numel() // (THREADS * BLOCK_BYTES)))
            self._launch("copy", grid, THREADS, target.data_ptr(), source.data_ptr(), source.numel())

    def wait_for(self, ready: int, go: int, key: int, number: int) -> None:
        """Have the stream write a number to ``ready``, wait until the host has written it to ``go``, and take a key.

        All three are addresses of 8 bytes in pinned memory.
        """
        # Forget what a failed call has absorbed.
        self._chunks = 0
        found = self._key.data_ptr()
        self._launch("wait_for", 1, 1, ready, go, number, LONGEST_WAIT_CYCLES, key, found)

    def make_room(self, nbytes: int) -> None:
        """Prepare for commitments to answers of ``nbytes``: allocating later would wait for the device."""
        self._load("commitment")
        self._reserve(LEAST_CHUNKS + nbytes // CHUNK)

    def absorb(self, source: torch.Tensor) -> None:
        """Add bytes, on the device or in pinned memory, to the next commitment.

        Does not wait for the device.
        """
        if not source.numel():
            return
        chunks = -(-source.numel() // CHUNK)
        self._reserve(self._chunks + chunks)
        there = self._digests.data_ptr() + self._chunks * DIGEST_BYTES
        self._launch("absorb", chunks, THREADS, source.data_ptr(), source.numel(), there)
        self._chunks += chunks

    def tell(self, address: int, number: int, digest: int) -> None:
        """Make the stream commit to the absorbed bytes and signal that all earlier work is done.

        It writes :data:`DIGEST_BYTES` to ``digest`` and then the number, of 8 bytes, to ``address``.
        """
        self._launch("tell", 1, THREADS, address, number, self._digests.data_ptr(), self._chunks, digest)
        self._chunks = 0

    def digest(self, parts: Iterable[torch.Tensor]) -> bytes:
        """Return the commitment to these bytes, on any device."""
        self._load("commitment")
        self._chunks = 0
        for part in parts:
            self.absorb(part.to("cuda"))
        word, root = self._told.data_ptr(), self._told.data_ptr() + 8
        self.tell(word, 1, root)
        return b"".join(int(each).to_bytes(8, "little", signed=True) for each in self._told[1:].tolist())

    def _launch(self, name: str, grid: int, threads: int, *arguments: int) -> None:
        values = [ctypes.c_uint64(each) for each in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        kernel = self._kernels[name]
        self._check(self._driver.cuLaunchKernel(kernel, grid, 1, 1, threads, 1, 1, 0, stream, pointers, None))

    def _reserve(self, chunks: int) -> None:
        if chunks * DIGEST_BYTES > self._digests.numel():
            more = torch.empty(2 * chunks * DIGEST_BYTES, dtype=torch.uint8, device="cuda")
            more[: self._digests.numel()].copy_(self._digests)
            self._digests = more

    def _load(self, name: str) -> None:
        """Load the kernels of a file, once."""
        if MODULES[name][0] in self._kernels:
            return
        module = ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(module), compiled(name) + b"\0"))
        for each in MODULES[name]:
            kernel = self._kernels[each] = ctypes.c_void_p()
            self._check(self._driver.cuModuleGetFunction(ctypes.byref(kernel), module, each.encode()))

    def _check(self, code: int) -> None:
        if code != 0:
            raise DeviceFault(f"the CUDA driver refused the harness's own kernels: error {code}")
