"""Values of a described form: tensors of given shapes and dtypes, with any contents."""

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
