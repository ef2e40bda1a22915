"""The CUDA driver by ctypes: its calls, its structures, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import pkgutil
from collections.abc import Callable
from typing import Any

from kernelcup_harness.window.reasons import DeviceError

u64 = ctypes.c_uint64
INVALID_VALUE, NOT_FOUND = 1, 500
DEVICE_MEMORY, HOST_MEMORY = 2, 1
"""``CU_MEMORYTYPE_DEVICE`` and ``CU_MEMORYTYPE_HOST``."""
FAULTS = frozenset({214, 220, 226, 700, 702, 709, *range(710, 721), 999})
"""Errors that make a context unusable."""


def ptx_of(name: str) -> bytes:
    """Return the PTX of a file in this folder, ended as the driver wants it."""
    return (pkgutil.get_data(__package__, name) or b"") + b"\0"


class DriverError(DeviceError):
    """The driver refused a call.

    Args:
        call: The name of the driver's function.
        code: Its ``CUresult``.
        name: That code's name, for example ``CUDA_ERROR_INVALID_VALUE``.
    """

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})", ends_process=code in FAULTS)
        self.call = call
        self.code = code


class Driver:
    """Calls of ``libcuda`` that raise :class:`DriverError` unless they return success.

    Args:
        library: The loaded library, for tests; by default loads ``libcuda``, or raises ``OSError``.
    """

    def __init__(self, library: Any = None) -> None:
        self.library = library or ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call a function by its exported name, version suffix included."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise DriverError(name, code, self.error_name(code))

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function and return its code."""
        return int(getattr(self.library, name)(*arguments))

    def handle(self, name: str, *arguments: Any) -> int:
        """Call a function whose first parameter receives a handle, and return that handle."""
        found = u64()
        self(name, ctypes.byref(found), *arguments)
        return found.value

    def error_name(self, code: int) -> str:
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(code, ctypes.byref(text))
        return text.value.decode() if text.value else "unknown error"

    def make_context(self, device: int = 0) -> int:
        """Make the primary context of a device current, and return its handle."""
        self("cuInit", 0)
        found = ctypes.c_int()
        self("cuDeviceGet", ctypes.byref(found), device)
        context = self.handle("cuDevicePrimaryCtxRetain", found)
        self("cuCtxSetCurrent", u64(context))
        return context


def initialize(load: Callable[[str], Any] = ctypes.CDLL) -> bool:
    """Initialize the driver, which takes 0.2 s; return whether it is there and works. Makes no context."""
    try:
        return int(load("libcuda.so.1").cuInit(0)) == 0
    except (OSError, AttributeError):
        return False


def is_memory(driver: Driver, word: int) -> bool:
    """Return whether the driver knows an address as device or host memory of this context."""
    kind = ctypes.c_uint()
    return not driver.code("cuPointerGetAttribute", ctypes.byref(kind), 2, u64(word)) and kind.value != 0


class KernelNode(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS_v2``."""

    _fields_ = (
        ("func", u64),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("params", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.POINTER(ctypes.c_void_p)),
        ("kern", u64),
        ("context", u64),
    )


class MemsetNode(ctypes.Structure):
    """``CUDA_MEMSET_NODE_PARAMS_v1``."""

    _fields_ = (
        ("target", u64),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element_bytes", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class CopyEnd(ctypes.Structure):
    """One side of a copy; ``CUDA_MEMCPY3D_v2`` has two."""

    _fields_ = (
        ("x_bytes", ctypes.c_size_t),
        ("y", ctypes.c_size_t),
        ("z", ctypes.c_size_t),
        ("level", ctypes.c_size_t),
        ("memory", ctypes.c_uint),
        ("host", u64),
        ("device", u64),
        ("array", u64),
        ("reserved", u64),
        ("pitch", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )

    def end(self, width: int, rows: int, layers: int) -> int:
        """Return the address behind the last byte that a copy touches on this side."""
        pitch = self.pitch or width
        height = self.height or rows
        last = ((self.z + layers - 1) * height + self.y + rows - 1) * pitch
        return int(self.device + last + self.x_bytes + width)


class CopyNode(ctypes.Structure):
    """``CUDA_MEMCPY3D_v2``."""

    _fields_ = (
        ("source", CopyEnd),
        ("target", CopyEnd),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    )


class AllocationProperties(ctypes.Structure):
    """``CUmemAllocationProp``."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_kind", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class AccessDescription(ctypes.Structure):
    """``CUmemAccessDesc``."""

    _fields_ = (
        ("location_kind", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("flags", ctypes.c_int),
    )


LaunchAttribute = ctypes.c_ubyte * 64
"""``CUlaunchAttributeValue``."""
EdgeData = ctypes.c_ubyte * 8
"""``CUgraphEdgeData``: ports and type; all zero for an ordinary edge."""
