"""A kernel that computes nothing, called like that of any submission, to measure what a call costs."""

from __future__ import annotations

from typing import Any

import torch

from kernelcup_harness.wire import decode, values


class Noop:
    """Returns an answer of the agreed form that was made before the call."""

    def __init__(self) -> None:
        self._answer: Any = None

    def prepare(self, tree: Any, table: Any) -> None:
        """Make the answer: tensors of the form's shapes, with any contents."""
        decoder = decode.Decoder(Nothing(), table, decode.importing_record_type, dense=False)
        self._answer = values.with_tensors(decoder.value(tree), whole)

    def __call__(self, _data: Any) -> Any:
        """Return the answer."""
        return self._answer


def nothing() -> None:
    """Do nothing: without a device there is nothing to wait for."""


class Nothing:
    """Memory whose tensors are all zeros, if only their form matters."""

    size = 1 << 62

    def take(self, device: str, _offset: int, nbytes: int) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(nbytes, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor like an expanded one."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
