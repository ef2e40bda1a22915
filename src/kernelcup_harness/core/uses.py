"""Records which tensors torch's operations read and write."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelcup_harness.wire import aliasing


class LightMode(TorchDispatchMode):  # type: ignore[misc]
    """A mode that does not import ``torch._dynamo``: its 900 modules cost each judge seconds in the first call."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping the subclass; :func:`unseen_by_dynamo` does it."""
        return False


def unseen_by_dynamo(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """Hide a mode's work from ``torch._dynamo`` if that is in use, as torch itself does."""
    hidden = torch._disable_dynamo(dispatch)

    @functools.wraps(dispatch)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return (hidden if "torch._dynamo" in sys.modules else dispatch)(*args, **kwargs)

    return inner


VARYING = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})
"""Operations such as ``nonzero`` and ``item``."""


class Uses(LightMode):
    """A mode that records which of some tensors are read and written, even through views.

    Accesses by address alone, for example from a kernel of the task's own, are not recorded.
    """

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._numbers: dict[int, set[int]] = {}
        for number, tensor in enumerate(tensors):
            self._numbers.setdefault(memory_of(tensor), set()).add(number)
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.varies = False
        """Whether a shape or a number followed from contents of a tensor."""

    @unseen_by_dynamo
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record one operation and run it."""
        kwargs = kwargs or {}
        self.varies = self.varies or not VARYING.isdisjoint(getattr(func, "tags", ()))
        # Of its argument, an operation like ``torch.empty_like`` takes the form.
        reads = isinstance(func, torch._ops.OpOverload) and not func.is_view
        if reads and not func.overloadpacket.__name__.endswith("_like"):
            for writes, tensor in tensors_of(func, args, kwargs):
                (self.written if writes else self.read).update(self._numbers.get(memory_of(tensor), ()))
        return func(*args, **kwargs)


def tensors_of(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[bool, torch.Tensor]]:
    """Yield the tensor arguments of an operation, each with whether it is written."""
    for place, expected in enumerate(func._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(expected.name)
        writes = expected.alias_info is not None and expected.alias_info.is_write
        for each in value if isinstance(value, (list, tuple)) else [value]:
            for part in aliasing.leaves(each) if isinstance(each, torch.Tensor) else ():
                yield writes, part


def memory_of(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage."""
    return int(tensor.untyped_storage().data_ptr())
