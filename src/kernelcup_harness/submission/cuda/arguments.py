"""The structures of ``kernelcup.h``, filled from values of a task and read back."""

from __future__ import annotations

import ctypes
import functools
import re
from typing import Any

import torch

from kernelcup_harness.submission.port import FunctionFailed
from kernelcup_harness.wire import aliasing, values

MAX_RANK = 16
MAX_MESSAGE = 4096
HOST = -1
NONE, TRUTH, INTEGER, REAL, TEXT, TYPE = range(6)
DTYPES = (
    "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
).split()
"""In the order of ``kc_dtype``, which counts from 1."""
NUMBERS = {getattr(torch, name): number for number, name in enumerate(DTYPES, 1) if hasattr(torch, name)}


class Tensor(ctypes.Structure):
    """``kc_tensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    )


class Scalar(ctypes.Structure):
    """``kc_scalar``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
    )


class Args(ctypes.Structure):
    """``kc_args``."""

    _fields_ = (
        ("tensor_count", ctypes.c_int32),
        ("scalar_count", ctypes.c_int32),
        ("tensors", ctypes.POINTER(Tensor)),
        ("scalars", ctypes.POINTER(Scalar)),
    )


class Context(ctypes.Structure):
    """``kc_context``."""


SCRATCH = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Context), ctypes.c_size_t)
Context._fields_ = (
    ("stream", ctypes.c_void_p),
    ("device", ctypes.c_int32),
    ("failed", ctypes.c_int32),
    ("scratch", SCRATCH),
    # A submission makes no tensors or scalars.
    ("new_tensor", ctypes.c_void_p),
    ("new_scalar", ctypes.c_void_p),
    ("owner", ctypes.c_void_p),
    ("message", ctypes.c_char * MAX_MESSAGE),
)


class Arguments:
    """The tensors and scalars of a value.

    Args:
        value: An input, or an answer whose tensors are allocated.
        gpu: Whether its tensors may lie on a GPU.
    """

    def __init__(self, value: Any, *, gpu: bool) -> None:
        leaves = list(aliasing.leaf_pairs(value, value, ""))
        tensors = [(path, leaf) for path, leaf, _ in leaves if isinstance(leaf, torch.Tensor)]
        scalars = [(path, leaf) for path, leaf, _ in leaves if not isinstance(leaf, torch.Tensor)]
        self.tensors = (Tensor * len(tensors))(*(tensor_of(path, leaf, gpu=gpu) for path, leaf in tensors))
        self.scalars = (Scalar * len(scalars))(*(scalar_of(path, leaf) for path, leaf in scalars))
        self.args = Args(len(tensors), len(scalars), self.tensors, self.scalars)
        self._value = value
        self._has_scalars = bool(scalars)

    def value(self) -> Any:
        """Return the value, with its scalars as they are now."""
        if not self._has_scalars:
            return self._value
        scalars = iter(self.scalars)
        return values.with_tensors(
            self._value, lambda each: each, lambda before: read_scalar(next(scalars), before)
        )


def tensor_of(path: str, value: torch.Tensor, *, gpu: bool) -> Tensor:
    """Describe a tensor. Raise :class:`FunctionFailed` if the header has no word for it."""
    if value.dtype not in NUMBERS or value.dim() > MAX_RANK:
        text = f"a tensor of dtype {value.dtype} with {value.dim()} dimensions"
        raise FunctionFailed(f"{text} cannot be passed to C: see kernelcup.h")
    device = value.get_device() if gpu and value.is_cuda else HOST
    made = Tensor(value.data_ptr() or None, name_of(path), NUMBERS[value.dtype], device, value.dim())
    made.shape[: value.dim()] = value.shape
    made.strides[: value.dim()] = value.stride()
    return made


def scalar_of(path: str, value: Any) -> Scalar:
    """Describe a value that is no tensor. Raise :class:`FunctionFailed` if the header has no word for it."""
    name = name_of(path)
    if value is None:
        return Scalar(name, NONE)
    if isinstance(value, bool):
        return Scalar(name, TRUTH, 0, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return Scalar(name, INTEGER, 0, value)
    if isinstance(value, float):
        return Scalar(name, REAL, 0, 0, value)
    if isinstance(value, str) and "\0" not in value:
        return Scalar(name, TEXT, 0, 0, 0.0, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, torch.dtype) and value in NUMBERS:
        return Scalar(name, TYPE, 0, NUMBERS[value])
    if isinstance(value, torch.device):
        return Scalar(name, TEXT, 0, 0, 0.0, str(value).encode())
    raise FunctionFailed(f"a {type(value).__name__} cannot be passed to C: see kernelcup.h")


def read_scalar(scalar: Scalar, before: Any) -> Any:
    """Return a scalar as it is now; kinds other than numbers cannot be changed."""
    now = {TRUTH: bool(scalar.integer), INTEGER: int(scalar.integer), REAL: float(scalar.real)}
    return now.get(scalar.kind, before)


@functools.lru_cache(maxsize=1024)
def name_of(path: str) -> bytes:
    """Return the name of a place in a value: ``weights.w1`` for ``['weights']['w1']``."""
    parts = re.findall(r"\[(?:'([^']*)'|\"([^\"]*)\"|([^\]]*))\]|\.(\w+)", path)
    return ".".join("".join(groups) for groups in parts).encode("utf-8", "surrogatepass")
