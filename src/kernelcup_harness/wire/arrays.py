"""NumPy's arrays and numbers in values: an array crosses as a tensor over the same memory.

Nothing here imports NumPy unless a value holds an array.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

NUMBERS = "?bBhHiIlLqQefdFD"
"""NumPy's codes of the dtypes that PyTorch has too."""


def is_array(value: Any) -> bool:
    """Return whether a value is an array, of no subclass."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def is_number(value: object) -> bool:
    """Return whether a value is one of NumPy's own numbers, such as ``numpy.float32(1)``."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic) and can_carry(value)


def can_carry(value: Any) -> bool:
    """Return whether PyTorch has the dtype of an array or a number, in this machine's byte order."""
    return value.dtype.char in NUMBERS and value.dtype.isnative


def as_tensor(array: Any) -> torch.Tensor:
    """Return a tensor over an array's memory; a copy if PyTorch cannot have such a view."""
    if not array.flags.writeable or any(step < 0 or step % array.itemsize for step in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def as_array(tensor: torch.Tensor) -> Any:
    """Return an array over the memory of a tensor on the host."""
    return torch.Tensor.numpy(tensor)


def dtype_of(number: Any) -> torch.dtype:
    """Return PyTorch's dtype of one of NumPy's numbers."""
    return as_tensor(sys.modules["numpy"].asarray(number)).dtype


def encoded(number: Any) -> list[str]:
    """Return the dtype and the bytes of a number, as text."""
    return [number.dtype.char, number.tobytes().hex()]


def decoded(code: object, content: object) -> Any:
    """Return the number of :func:`encoded`. Raise ValueError for anything else."""
    import numpy

    if not isinstance(code, str) or len(code) != 1 or code not in NUMBERS or not isinstance(content, str):
        raise ValueError("no number")
    (number,) = numpy.frombuffer(bytes.fromhex(content), dtype=code)
    return number
