"""Notes where the arithmetic of a checker fails without a word: NaN that is compared, numbers that overflow or wrap.

``error > tolerance`` is false for NaN, which a harmless formula makes out of the largest finite numbers, an infinite
norm makes each share of it 0, and ``(output - expected).abs()`` of whole numbers may be negative. So a checker accepts
what it was meant to refuse.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import torch

from kernelcup_harness.core.check import FAILS
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.core.uses import LightMode, unseen_by_dynamo

COMPARED = frozenset({"lt", "le", "gt", "ge"})
WRAPPING = frozenset({"add", "sub", "rsub", "mul", "pow", "neg", "abs"})
OVERFLOWING = frozenset(
    "add sub mul pow sum mean cumsum prod mm bmm addmm baddbmm mv dot linalg_vector_norm norm var std".split()
)
"""They make no infinities but by leaving the range of their dtype. Divisions do, which a checker may mean."""
TO_PYTHON = "_local_scalar_dense"
"""What ``item`` and ``float`` call."""


def checked(task: TaskCode, given: Any, output: Any) -> str:
    """Return the checker's fault of an output, or ``FAILS`` if it names none, but its arithmetic failed.

    PyTorch's operations are watched, and of NumPy's those that make NaN.
    """
    watch, numpy = Arithmetic(), sys.modules.get("numpy")
    with watch, nullcontext() if numpy is None else numpy.errstate(invalid="call", call=watch.note):
        text = task.checked(given, output)
    return text or (FAILS if watch.failed() else "")


class Arithmetic(LightMode):
    """A mode that watches torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self._failed: dict[torch.device, torch.Tensor] = {}
        self._noted = False

    def failed(self) -> bool:
        """Return whether any operation has failed; waits for the device."""
        return self._noted or any(map(bool, self._failed.values()))

    def note(self, *_what: object) -> None:
        """Note that an operation of another library has failed."""
        self._noted = True

    @unseen_by_dynamo
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation, and watch it."""
        kwargs = kwargs or {}
        name = (
            func.overloadpacket.__name__.removesuffix("_") if isinstance(func, torch._ops.OpOverload) else ""
        )
        if name in COMPARED:
            for each in args:
                if has_fractions(each):
                    self._add(torch.isnan(each).any())
        wide = in_floats(name, args, kwargs) if name in WRAPPING else None
        found = func(*args, **kwargs)
        if wide is not None:
            # What wraps is off by a multiple of the dtype's range.
            self._add(((wide - found).abs() >= 2.0 ** (8 * found.itemsize - 1)).any())
        elif name in OVERFLOWING and has_fractions(found):
            self._add(torch.isinf(found).any())
        if name == TO_PYTHON and found != found:
            self._noted = True
        return found

    def _add(self, failed: torch.Tensor) -> None:
        before = self._failed.get(failed.device)
        self._failed[failed.device] = failed if before is None else before | failed


def has_fractions(value: object) -> bool:
    """Return whether a value is a tensor whose elements may be NaN or infinite, of a dtype that PyTorch compares."""
    return isinstance(value, torch.Tensor) and not is_whole(value) and value.itemsize > 1


def is_whole(tensor: torch.Tensor) -> bool:
    """Return whether the elements are whole numbers or truth values."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def in_floats(name: str, args: Any, kwargs: Any) -> torch.Tensor | None:
    """Return what an operation on whole numbers gives in float32, None for an operation on others."""
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    if not tensors or not all(map(is_whole, tensors)):
        return None
    if any(isinstance(each, float | complex) for each in args) or all(
        each.dtype is torch.bool for each in tensors
    ):
        return None
    wide = [each.float() if isinstance(each, torch.Tensor) else each for each in args]
    return getattr(torch.ops.aten, name)(*wide, **{k: v for k, v in kwargs.items() if k == "alpha"})
