"""Answers that need none or only a part of the work, which a good task refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kernelcup_harness.core import structure
from kernelcup_harness.doubt import near_twins
from kernelcup_harness.wire import arrays, records
from kernelcup_harness.wire import values as wire

TILES = 16
"""Number of parts of an output, counted row by row; the last tile is the last part."""
STRIDE = 100
"""One element in this many is wrong."""

# Lower-precision formats that people use to be faster than the requested one.
LOWER: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.complex128: (torch.complex64,),
    torch.float64: (torch.float32,),
    torch.float32: (torch.float16, torch.bfloat16),
    torch.float16: (torch.float8_e4m3fn,),
    torch.bfloat16: (torch.float8_e4m3fn,),
}

Change = Callable[[str, torch.Tensor], torch.Tensor]


def is_plain(value: object) -> bool:
    """Return whether a tensor can be carried and has elements."""
    plain = type(value) in (torch.Tensor, torch.nn.Parameter)
    return plain and value.layout is torch.strided and value.numel() > 0  # type: ignore[attr-defined]


def is_workable(value: torch.Tensor) -> bool:
    """Return whether PyTorch computes with elements of this dtype; else they are treated as bytes."""
    return not wire.is_opaque(value.dtype) and value.dtype is not torch.complex32


def as_leaf(value: Any) -> torch.Tensor | None:
    """Return a tensor or a number as a tensor, None for a value that cannot be changed element by element."""
    if isinstance(value, torch.Tensor):
        if not is_plain(value):
            return None
        return value.detach() if is_workable(value) else value.detach().contiguous().view(torch.uint8)
    if arrays.is_number(value):
        return torch.tensor(value.item(), dtype=torch.from_numpy(value.reshape(1)).dtype)
    if type(value) in (bool, float, complex) or (type(value) is int and abs(value) < 2**62):
        return torch.tensor(value, dtype=torch.float64 if type(value) is float else None)
    return None


def leaves(value: Any, where: str) -> list[tuple[str, torch.Tensor]]:
    """Return every tensor and number of a value with its path."""
    found: list[tuple[str, torch.Tensor]] = []

    def note(path: str, leaf: torch.Tensor) -> torch.Tensor:
        found.append((path, leaf))
        return leaf

    rebuilt(value, note, where)
    return found


def rebuilt(value: Any, change: Change, where: str) -> Any:
    """Return the value with ``change`` applied to each leaf."""
    if isinstance(value, (list, tuple)) and records.record_fields(value) is None:
        items = [rebuilt(item, change, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: rebuilt(item, change, f"{where}[{key!r}]") for key, item in value.items()}
    if arrays.is_array(value):
        return arrays.as_array(change(where, arrays.as_tensor(value)))
    fields = records.record_fields(value)
    if fields is not None:
        before = {name: records.part(value, name) for name in fields}
        made = {name: rebuilt(part, change, f"{where}.{name}") for name, part in before.items()}
        if isinstance(value, torch.Tensor):
            # A checker follows the indices of a sparse tensor, and the judge lets no others pass.
            made = {
                n: p if n.endswith("values()") and p.shape == before[n].shape else before[n].clone()
                for n, p in made.items()
            }
        return records.build_record(records.kind_of(value), made)
    leaf = as_leaf(value)
    if leaf is None:
        return value
    changed = change(where, leaf)
    if not isinstance(value, torch.Tensor):
        return type(value)(changed.item())
    return changed if is_workable(value) else changed.view(value.dtype)


def private(value: Any) -> Any:
    """Return a contiguous copy that shares no memory, as the judge gives answers to a checker."""
    return rebuilt(value, lambda _path, leaf: leaf.clone(memory_format=torch.contiguous_format), "output")


def is_equal(expected: Any, answer: Any) -> bool:
    """Return whether an answer equals the right one, element by element."""
    if structure.structure_fault(expected, answer):
        return False
    wrong = dict(leaves(answer, "output"))
    return all(path in wrong and same(leaf, wrong[path]) for path, leaf in leaves(expected, "output"))


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two tensors of one form have equal elements; NaN equals NaN."""
    if left.dtype.itemsize == 1 and left.is_floating_point():
        # PyTorch cannot compare these formats.
        left, right = left.to(torch.float32), right.to(torch.float32)
    if torch.equal(left, right):
        return True
    if not (left.is_floating_point() or left.is_complex()) or not bool(left.isnan().any()):
        return False
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def ones(leaf: torch.Tensor) -> torch.Tensor:
    """Return a tensor of that form full of ones."""
    return torch.ones(leaf.shape, device=leaf.device).to(leaf.dtype)


def uninitialised(leaf: torch.Tensor) -> torch.Tensor:
    """Return a tensor of that form with random bytes."""
    generator = torch.Generator(device="cpu").manual_seed(leaf.numel())
    count = leaf.numel() * leaf.dtype.itemsize
    values = torch.randint(0, 256, (count,), generator=generator, dtype=torch.uint8, device="cpu")
    if leaf.dtype is torch.bool:
        values &= 1
    return values.view(leaf.dtype).reshape(leaf.shape).to(leaf.device)


def one_percent_wrong(leaf: torch.Tensor) -> torch.Tensor:
    """Return the tensor with one element in a hundred, at least one, moved by the elements' usual size."""
    flat = leaf.clone(memory_format=torch.contiguous_format).reshape(-1)
    count = max(1, flat.numel() // STRIDE)
    step = flat.numel() // count
    # The last of each hundred, to reveal a checker that checks only the first few.
    flat[step - 1 :: step] = moved(flat[step - 1 :: step], usual_size(leaf))
    return flat.reshape(leaf.shape)


def usual_size(leaf: torch.Tensor) -> float:
    """Return the mean magnitude of the finite elements, 1 if there are none or it is zero."""
    if leaf.dtype is torch.bool:
        return 1.0
    sizes = leaf.to(torch.complex128 if leaf.is_complex() else torch.float64).abs()
    sizes = sizes[torch.isfinite(sizes)]
    mean = float(sizes.mean()) if sizes.numel() else 0.0
    return mean if mean > 0 else 1.0


def moved(values: torch.Tensor, distance: float) -> torch.Tensor:
    """Return the values plus ``distance``, or minus it if that would leave the dtype's range."""
    if values.dtype is torch.bool:
        return ~values
    if values.is_complex():
        return values + distance
    if values.is_floating_point():
        wide = values.to(torch.float64)
        up = wide + distance
        return torch.where(up <= torch.finfo(values.dtype).max, up, wide - distance).to(values.dtype)
    step = max(1, round(distance))
    wide = values.to(torch.int64)
    top = min(torch.iinfo(values.dtype).max, torch.iinfo(torch.int64).max)
    return torch.where(wide <= top - step, wide + step, wide - step).to(values.dtype)


def last_tile_missing(leaf: torch.Tensor) -> torch.Tensor:
    """Return the tensor with its last sixteenth, row by row, set to zeros, or to ones if it is all zeros already."""
    flat = leaf.clone(memory_format=torch.contiguous_format).reshape(-1)
    begin = flat.numel() - max(1, flat.numel() // TILES)
    tile = flat[begin:]
    flat[begin:] = torch.zeros_like(tile) if bool((tile != torch.zeros_like(tile)).any()) else ones(tile)
    return flat.reshape(leaf.shape)


def largest(leaf: torch.Tensor) -> torch.Tensor:
    """Return a tensor of that form full of the largest finite number, or the tensor itself if it holds no fractions."""
    if not (leaf.is_floating_point() or leaf.is_complex()):
        return leaf
    wide = torch.complex128 if leaf.is_complex() else torch.float64
    return torch.full(leaf.shape, torch.finfo(leaf.dtype).max, dtype=wide, device=leaf.device).to(leaf.dtype)


def half_nan(leaf: torch.Tensor) -> torch.Tensor:
    """Return the tensor with NaN in its second half, or unchanged if its dtype has none."""
    flat = leaf.clone(memory_format=torch.contiguous_format).reshape(-1)
    flat[flat.numel() // 2 :] = nan(flat[flat.numel() // 2 :])
    return flat.reshape(leaf.shape)


def filled(leaf: torch.Tensor, number: float) -> torch.Tensor:
    """Return a tensor of that form full of one number, or the tensor itself if its dtype cannot hold it."""
    if not (leaf.is_floating_point() or leaf.is_complex()):
        return leaf
    made = torch.full(leaf.shape, number, device=leaf.device).to(leaf.dtype)
    return leaf if near_twins.is_finite(made) else made


nan, infinite = partial(filled, number=float("nan")), partial(filled, number=float("inf"))


def other_forms(leaf: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the tensor empty, twice as long, and in dtypes in which its values are lost, each with a description."""
    found = {"empty": leaf[:0], "twice as long": torch.cat([leaf, leaf])} if leaf.dim() else {}
    for dtype in () if leaf.is_complex() else (torch.bool, torch.int8):
        narrow = leaf.to(torch.float32 if leaf.is_floating_point() else leaf.dtype).to(dtype)
        if not same(leaf, narrow.to(leaf.dtype)):
            found[f"in {str(dtype).removeprefix('torch.')}"] = narrow
    return found


def hostile_integers(leaf: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return tensors of that form of integers that are negative or very large; nothing for other dtypes."""
    if leaf.dtype is torch.bool or leaf.is_floating_point() or leaf.is_complex():
        return {}
    low, high = torch.iinfo(leaf.dtype).min, min(torch.iinfo(leaf.dtype).max, 2**63 - 1)
    return {f"all {number}": torch.full_like(leaf, number) for number in {max(-1, low), low, high}}


def copies(leaf: torch.Tensor, inputs: list[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    """Return the inputs that can be returned in the form of ``leaf``, each with its path."""
    fitting = [(path, value) for path, value in inputs if fits(value, leaf)]
    return [(path, in_form_of(value, leaf)) for path, value in fitting]


def fits(value: torch.Tensor, leaf: torch.Tensor) -> bool:
    """Return whether a tensor has as many elements as ``leaf``, or can be broadcast to it."""
    if value.numel() == leaf.numel():
        return True
    if value.numel() == 1 or value.dim() > leaf.dim():
        return False
    sizes = zip(reversed(value.shape), reversed(leaf.shape), strict=False)
    return all(mine in (1, theirs) for mine, theirs in sizes)


def in_form_of(value: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """Return a copy of ``value`` with the shape, dtype and device of ``leaf``."""
    if value.is_complex() and not leaf.is_complex():
        value = torch.view_as_real(value)[..., 0]
    value = value.to(leaf.device)
    shaped = value.reshape(leaf.shape) if value.numel() == leaf.numel() else value.expand(leaf.shape)
    return shaped.to(leaf.dtype).clone(memory_format=torch.contiguous_format)


def rounded(leaf: torch.Tensor, lower: torch.dtype) -> torch.Tensor:
    """Return a floating-point tensor rounded to ``lower``, in its own dtype; others unchanged."""
    is_number = leaf.is_floating_point() or leaf.is_complex()
    if not is_number or leaf.is_complex() != lower.is_complex or leaf.dtype.itemsize <= lower.itemsize:
        return leaf
    return leaf.to(lower).to(leaf.dtype)
