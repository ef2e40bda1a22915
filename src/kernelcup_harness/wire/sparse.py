"""Sparse tensors in values: one crosses as a record of its parts, which are dense tensors."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch

ROWS, COLUMNS = (
    ("crow_indices()", "col_indices()", "values()"),
    ("ccol_indices()", "row_indices()", "values()"),
)
PARTS = {
    "sparse_coo": ("_indices()", "_values()"),
    "sparse_csr": ROWS,
    "sparse_bsr": ROWS,
    "sparse_csc": COLUMNS,
    "sparse_bsc": COLUMNS,
}
"""The methods that return a tensor's parts, by its layout: of any entries, coalesced or not."""
INDICES = "indices()"
"""How the path of a part ends that says where the others' elements are."""


class Broken(ValueError):
    """The parts of a sparse tensor contradict each other."""


class Sparse(NamedTuple):
    """What a sparse tensor has beside its parts."""

    layout: str
    shape: list[int]
    coalesced: bool

    def built(self, parts: dict[str, torch.Tensor], *, check: bool = False) -> torch.Tensor:
        """Return the tensor over the memory of its parts, which may not be written yet.

        With ``check``, raise :class:`Broken` unless every index lies in the shape, and in order.
        """
        layout, given = getattr(torch, self.layout), tuple(parts[name] for name in PARTS[self.layout])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse .* tensor support is in beta")
            try:
                if layout is torch.sparse_coo:
                    flags = {"check_invariants": check, "is_coalesced": self.coalesced}
                    return torch.sparse_coo_tensor(*given, self.shape, **flags)
                return torch.sparse_compressed_tensor(
                    *given, self.shape, layout=layout, check_invariants=check
                )
            except RuntimeError as error:
                raise Broken(f"a {self.layout} tensor that contradicts itself: {error}") from error


def kind_of(value: Any) -> Sparse | None:
    """Return what a sparse tensor, of no subclass, has beside its parts; None for anything else."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is torch.strided:
        return None
    layout = str(value.layout).removeprefix("torch.")
    coalesced = layout == "sparse_coo" and value.is_coalesced()
    return Sparse(layout, list(value.shape), coalesced) if layout in PARTS else None


def part(value: torch.Tensor, name: str) -> torch.Tensor:
    """Return a part, over the tensor's own memory."""
    found: torch.Tensor = getattr(torch.Tensor, name.removesuffix("()"))(value.detach())
    return found
