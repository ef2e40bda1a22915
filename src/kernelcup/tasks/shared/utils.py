"""What a task's ``reference.py`` may import as ``utils``: comparing outputs, seeds, the cache.

The loader puts this file beside every task that names ``utils.py`` and does not ship its own. It
stands alone: it needs torch and nothing of KernelCup, so that a task also runs on a bare machine.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

CHUNK = 1 << 22
"""Elements compared at a time: bounds the memory that a comparison takes."""
PACKED = re.compile(r"torch\.(u?int[1-7]|float4_\w+)")
"""Dtypes whose elements PyTorch cannot compare: their bytes have to be equal."""


class Check(Protocol):
    """What :func:`make_match_reference` returns, fit to be a task's ``check_implementation``."""

    reference: Callable[[Any], Any]
    rtol: float
    atol: float

    def __call__(self, data: Any, output: Any) -> tuple[bool, str]:
        """Say whether ``output`` answers ``data``, and if not, why not."""


def verbose_allclose(
    received: torch.Tensor,
    expected: torch.Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    max_print: int = 5,
) -> list[str]:
    """Return what is wrong with ``received``, a summary first; an empty list if nothing is.

    An element is right if it is within ``atol + rtol * |expected|`` of the expected one. NaN is
    right only where NaN is expected, an infinity only where the same infinity is.
    """
    return _describe_form(received, expected) or _compare(received, expected, rtol, atol, max_print)


def verbose_allequal(received: torch.Tensor, expected: torch.Tensor, max_print: int = 5) -> list[str]:
    """Like :func:`verbose_allclose` without any tolerance: for integers, masks and copies."""
    return _describe_form(received, expected) or _compare(received, expected, 0.0, 0.0, max_print)


def match_reference(
    data: Any,
    output: Any,
    reference: Callable[[Any], Any],
    rtol: float = 1e-05,
    atol: float = 1e-08,
) -> tuple[bool, str]:
    """Compare ``output`` with ``reference(data)``: tensors, numbers, and nests of both."""
    reasons = _compare_nested(output, reference(data), rtol, atol, "output")
    return not reasons, "\n".join(reasons)


def make_match_reference(reference: Callable[[Any], Any], rtol: float = 1e-05, atol: float = 1e-08) -> Check:
    """Make a ``check_implementation(data, output)`` that compares with ``reference(data)``.

    The tolerances stay readable as ``.rtol`` and ``.atol``: a judge can say what counted as wrong.
    """

    def check(data: Any, output: Any) -> tuple[bool, str]:
        return match_reference(data, output, reference, rtol, atol)

    result: Any = check
    result.reference, result.rtol, result.atol = reference, rtol, atol
    return result  # type: ignore[no-any-return]


def set_seed(seed: int = 42) -> None:
    """Seed every global generator that a task may use: Python, torch on all devices, NumPy."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def get_device(use_cuda: bool = True) -> torch.device:
    """Return the GPU if it is wanted and there is one, else the processor."""
    return torch.device("cuda" if use_cuda and torch.cuda.is_available() else "cpu")


def clear_l2_cache() -> None:
    """Push all else out of the GPU's second-level cache; without a GPU do nothing."""
    if not torch.backends.cuda.is_built() or not torch.cuda.is_available():
        return  # a torch that was built without CUDA can at most pretend to have a GPU
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    size = 2 * int(getattr(properties, "L2_cache_size", 0) or 64 << 20)
    torch.empty(size, dtype=torch.uint8, device="cuda").zero_()


class DeterministicContext:
    """Within it torch computes reproducibly and in full float32; afterwards as it did before."""

    def __init__(self) -> None:
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> DeterministicContext:
        full_precision = (
            torch.backends.cuda.matmul,
            torch.backends.cudnn.conv,
            torch.backends.cudnn.rnn,
        )
        with contextlib.ExitStack() as undo:
            undo.enter_context(_attribute(torch.backends.cudnn, "deterministic", True))
            undo.enter_context(_attribute(torch.backends.cudnn, "benchmark", False))
            for owner in full_precision:
                undo.enter_context(_attribute(owner, "fp32_precision", "ieee"))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()


@contextlib.contextmanager
def _attribute(owner: Any, name: str, value: object) -> Iterator[None]:
    """Set an attribute for the duration; one that this torch does not have is left out."""
    if not hasattr(owner, name):
        yield
        return
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _compare_nested(received: Any, expected: Any, rtol: float, atol: float, where: str) -> list[str]:
    """Walk both nests side by side and name the place of each difference."""
    if isinstance(expected, torch.Tensor):
        if type(received) is not torch.Tensor:
            return [f"{where}: expected a tensor, got {_type_name(received)}"]
        lines = verbose_allclose(received, expected, rtol, atol)
        return [f"{where}: {line}" if i == 0 else f"  {line}" for i, line in enumerate(lines)]
    if isinstance(expected, Mapping):
        return _compare_mappings(received, expected, rtol, atol, where)
    if isinstance(expected, (list, tuple)):
        return _compare_sequences(received, expected, rtol, atol, where)
    return _compare_scalars(received, expected, rtol, atol, where)


def _compare_mappings(
    received: Any, expected: Mapping[Any, Any], rtol: float, atol: float, where: str
) -> list[str]:
    if not isinstance(received, Mapping):
        return [f"{where}: expected a dict, got {_type_name(received)}"]
    if set(received) != set(expected):
        return [f"{where}: expected the keys {sorted(expected, key=str)}, got {sorted(received, key=str)}"]
    return [
        line
        for key, value in expected.items()
        for line in _compare_nested(received[key], value, rtol, atol, f"{where}[{key!r}]")
    ]


def _compare_sequences(
    received: Any, expected: Sequence[Any], rtol: float, atol: float, where: str
) -> list[str]:
    if not isinstance(received, (list, tuple)):
        return [f"{where}: expected {len(expected)} values, got {_type_name(received)}"]
    if len(received) != len(expected):
        return [f"{where}: expected {len(expected)} values, got {len(received)}"]
    return [
        line
        for i, value in enumerate(expected)
        for line in _compare_nested(received[i], value, rtol, atol, f"{where}[{i}]")
    ]


def _compare_scalars(received: Any, expected: Any, rtol: float, atol: float, where: str) -> list[str]:
    """Numbers within tolerance, anything else equal; a bool is no number."""
    if isinstance(expected, float):
        if type(received) not in (int, float):
            return [f"{where}: expected a number, got {_type_name(received)}"]
        if _close(float(received), expected, rtol, atol):
            return []
    elif type(received) is not type(expected):
        return [f"{where}: expected {_type_name(expected)}, got {_type_name(received)}"]
    elif received == expected:
        return []
    return [f"{where}: expected {expected!r}, got {received!r}"]


def _close(received: float, expected: float, rtol: float, atol: float) -> bool:
    if math.isnan(expected) or math.isinf(expected):
        return received == expected or (math.isnan(expected) and math.isnan(received))
    return abs(received - expected) <= atol + rtol * abs(expected)


def _type_name(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _describe_form(received: torch.Tensor, expected: torch.Tensor) -> list[str]:
    """Return one line for each respect in which the tensor is not even of the right form."""
    lines = []
    if received.shape != expected.shape:
        lines.append(f"expected the shape {tuple(expected.shape)}, got {tuple(received.shape)}")
    if received.dtype != expected.dtype:
        lines.append(f"expected the dtype {expected.dtype}, got {received.dtype}")
    if received.layout != expected.layout:
        kind = "a dense tensor" if expected.layout == torch.strided else f"the layout {expected.layout}"
        lines.append(f"expected {kind}, got the layout {received.layout}")
    return lines


def _compare(
    received: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float, max_print: int
) -> list[str]:
    """Compare two tensors of one form, a chunk of elements at a time."""
    if PACKED.fullmatch(str(expected.dtype)):
        received, expected, rtol, atol = received.view(torch.uint8), expected.view(torch.uint8), 0.0, 0.0
    # Sparse tensors may store other zeros, and in another order.
    flat_received = received.detach().to(expected.device).to_dense().reshape(-1)
    flat_expected = expected.detach().to_dense().reshape(-1)
    tally = _Tally(total=flat_expected.numel(), max_print=max_print)
    for start in range(0, tally.total, CHUNK):
        part = slice(start, start + CHUNK)
        tally.add(start, _widen(flat_received[part]), _widen(flat_expected[part]), rtol, atol)
    return tally.lines(tuple(expected.shape))


def _widen(values: torch.Tensor) -> torch.Tensor:
    """Convert to a type in which differences neither overflow nor round noticeably.

    Integers stay as they are: a double would merge neighbours above 2**53.
    """
    if values.is_complex():
        return values.to(torch.complex128)
    if values.is_floating_point():
        return values.to(torch.float64 if values.element_size() >= 4 else torch.float32)
    return values


class _Tally:
    """Counts what differs, and keeps the first few places."""

    def __init__(self, total: int, max_print: int) -> None:
        self.total = total
        self.max_print = max_print
        self.wrong = 0
        self.nan = 0
        self.infinite = 0
        self.largest = 0.0
        self.largest_at = -1
        self.first: list[tuple[int, object, object]] = []

    def add(
        self, start: int, received: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float
    ) -> None:
        same = received == expected
        if bool(same.all()):
            return
        if not expected.is_floating_point() and not expected.is_complex():
            received_number, expected_number = received.double(), expected.double()
        else:
            received_number, expected_number = received, expected
        error = (received_number - expected_number).abs()
        same |= received_number.isnan() & expected_number.isnan()
        if rtol != 0 or atol != 0:
            # An infinity expected would make the tolerance infinite: it has to be met exactly.
            same |= (error <= atol + rtol * expected_number.abs()) & expected_number.isfinite()
        wrong = ~same
        self.wrong += int(wrong.sum())
        self.nan += int((wrong & received_number.isnan()).sum())
        self.infinite += int((wrong & received_number.isinf()).sum())
        self._note_largest(start, torch.where(wrong & error.isfinite(), error, -1.0))
        for i in wrong.nonzero()[: self.max_print - len(self.first)].flatten().tolist():
            self.first.append((start + i, received[i].item(), expected[i].item()))

    def _note_largest(self, start: int, error: torch.Tensor) -> None:
        at = int(error.argmax())
        if float(error[at]) >= 0 and (self.largest_at < 0 or float(error[at]) > self.largest):
            self.largest, self.largest_at = float(error[at]), start + at

    def lines(self, shape: tuple[int, ...]) -> list[str]:
        if not self.wrong:
            return []
        parts = [f"{self.wrong} of {self.total} elements are wrong ({self.wrong / self.total:.2%})"]
        if self.nan:
            parts.append(f"{self.nan} of them NaN")
        if self.infinite:
            parts.append(f"{self.infinite} of them infinite")
        if self.largest_at >= 0:
            place = _position(self.largest_at, shape)
            parts.append(f"the largest finite error is {self.largest:.6g} at {place}")
        details = [
            f"{_position(index, shape)}: expected {expected}, got {received}"
            for index, received, expected in self.first
        ]
        if self.wrong > len(details) > 0:
            details.append(f"and {self.wrong - len(details)} more")
        return ["; ".join(parts), *details]


def _position(index: int, shape: tuple[int, ...]) -> list[int]:
    """Return the subscripts of the ``index``-th element in row-major order."""
    position: list[int] = []
    for extent in reversed(shape):
        index, subscript = divmod(index, extent)
        position.append(subscript)
    return position[::-1]
