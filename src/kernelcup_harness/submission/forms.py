"""Values of a described form, with any contents, and a kernel that returns one: it measures what a call costs."""

from __future__ import annotations

from typing import Any

import torch

from kernelcup_harness.wire import decode, values


def decoded(tree: Any, table: Any) -> Any:
    """Return a value of the form that a tree and its table describe; expanded tensors store one element."""
    return decode.Decoder(Nothing(), table, decode.importing_record_type, dense=False).value(tree)


def fresh(form: Any) -> Any:
    """Return a value of the same form as ``form`` with dense tensors of their own."""
    return values.with_tensors(form, _whole)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


class Nothing:
    """Memory whose contents do not matter."""

    size = 1 << 62

    def take(self, device: str, _offset: int, nbytes: int) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(nbytes, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")


class Noop:
    """Returns an answer of the agreed form that was made before the call."""

    def __init__(self) -> None:
        self._answer: Any = None

    def prepare(self, tree: Any, table: Any) -> None:
        """Make the answer: tensors of the form's shapes, with any contents."""
        self._answer = fresh(decoded(tree, table))

    def __call__(self, _data: Any) -> Any:
        """Return the answer."""
        return self._answer


def nothing() -> None:
    """Do nothing: without a device there is nothing to wait for."""
