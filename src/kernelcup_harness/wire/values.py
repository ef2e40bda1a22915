"""Value trees: how inputs and outputs cross between judge and contestant.

A value becomes a JSON tree in which each tensor is an entry of a table ``{dtype, shape, strides,
offset, nbytes, device}``; the bytes lie in an :class:`Arena`, shared memory that the judge made and
sealed. Types that a tree can hold: tensors, NumPy's arrays and numbers, None, bool, int, float, complex, str,
bytes, ``torch.dtype``, ``torch.device``, and tuple, list, dict, namedtuple, dataclass and plain object of them; of
a sparse tensor its parts.
"""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import functools
import mmap
import os
import re
from collections.abc import Callable
from typing import Any, Protocol

import torch

from kernelcup_harness.wire import arrays, devices
from kernelcup_harness.wire.records import Kind, build_record, instead, kind_of, part, record_fields
from kernelcup_harness.wire.sparse import Sparse

ALIGNMENT = 256
GUARD_BYTES = 256
"""Size of the bands before, between and after the tensors of an output, which must not be written."""
NAMES = {"cuda:0": "cuda:0"}
"""Names of devices on the wire: a process has one GPU, whose number may be another in a call on several."""
MAX_NODES = 100_000
MAX_TEXT = 1 << 20
MAX_INT_BITS = 8192
MAX_DEPTH = 64
DTYPES: dict[str, torch.dtype] = {
    str(value).removeprefix("torch."): value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype) and not str(value).startswith(("torch.q", "torch.bits"))
}

OPAQUE = re.compile(r"torch\.(u?int[1-7]|float4_\w+)")
"""Dtypes of single bytes whose elements PyTorch can neither compare nor convert."""


class CannotCarry(TypeError):
    """A value holds something that a tree cannot hold; the text gives its path and type."""


class BadTree(ValueError):
    """A tree from the other side breaks the rules."""


class TooLarge(ValueError):
    """The tensors of a tree do not fit into the arena; ``needed`` and ``allowed`` are in bytes."""

    def __init__(self, needed: int, allowed: int) -> None:
        super().__init__(f"{needed} bytes of tensors; {allowed} are allowed")
        self.needed = needed
        self.allowed = allowed


class Memory(Protocol):
    """Holds the bytes of a tree's tensors."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return bytes on a device, for one tensor."""


class Arena:
    """Shared memory of a fixed size behind a sealed memfd.

    The seals keep the other side from shrinking it, which would kill the reader with SIGBUS.
    Pages cost memory only once they are touched.
    """

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self.memory = mmap.mmap(fd, size)
        self.bytes = torch.frombuffer(self.memory, dtype=torch.uint8)
        self._pinned = 0

    @classmethod
    def create(cls, size: int) -> Arena:
        """Create an arena of at least ``size`` bytes."""
        size = max(mmap.PAGESIZE, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        fd = os.memfd_create("kernelcup", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls(fd, size)

    @classmethod
    def adopt(cls, fd: int) -> Arena:
        """Map an arena that came over a socket."""
        return cls(fd, os.fstat(fd).st_size)

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return a private copy, made before any check: the other side may still be writing."""
        private = torch.empty(nbytes, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")
        return private.copy_(self.bytes[offset : offset + nbytes])

    def pin(self, nbytes: int) -> bool:
        """Give the GPU, if there is one, direct access to the first bytes. Return whether it has access."""
        wanted = min(self.size, -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        if wanted > self._pinned:
            self._unpin()
            self._pinned = wanted if devices.pin(self.bytes.data_ptr(), wanted) else 0
        return self._pinned >= wanted

    def close(self) -> None:
        """Close the descriptor; the mapping lives until no tensor uses it."""
        self._unpin()
        os.close(self.fd)

    def _unpin(self) -> None:
        if self._pinned:
            devices.unpin(self.bytes.data_ptr())
            self._pinned = 0


@dataclasses.dataclass(slots=True)
class TensorEntry:
    """One tensor of a tree."""

    value: torch.Tensor
    offset: int
    span: int
    """Elements from the first to the last that the strides reach."""
    path: str
    """Path in the value at which the tensor first occurs."""

    @property
    def nbytes(self) -> int:
        return self.span * int(self.value.element_size())

    def describe(self) -> dict[str, Any]:
        value = self.value
        shape = list(value.shape)
        # Dimensions of size 1 may have any stride in a contiguous tensor; one form is agreed.
        strides = dense_strides(shape) if value.is_contiguous() else list(value.stride())
        return {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": shape,
            "strides": strides,
            "offset": self.offset,
            "nbytes": self.nbytes,
            "device": NAMES.get(str(value.device), str(value.device)),
            "grad": bool(value.requires_grad),
        }


Copy = Callable[[torch.Tensor, torch.Tensor], None]
"""Fills a buffer of bytes with those of another."""


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy bytes and wait for the copy."""
    target.copy_(source)


class Encoder:
    """Turn values into trees, collecting the tensors on the way.

    With ``guarded`` there are bands of :data:`GUARD_BYTES` around each tensor: the layout of outputs.
    """

    def __init__(self, *, guarded: bool = False) -> None:
        self.tensors: list[TensorEntry] = []
        self._seen: dict[object, int] = {}
        self._nodes = 0
        self._guard = GUARD_BYTES if guarded else 0
        self._end = self._guard

    @property
    def nbytes(self) -> int:
        """Bytes of arena that the tensors need."""
        return self._end

    def tree(self, value: Any, path: str = "value", depth: int = 0) -> Any:
        """Return the JSON tree of ``value``; each has the bounds for itself. Raise :class:`CannotCarry`."""
        self._nodes = self._nodes + 1 if depth else 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise CannotCarry(f"{path}: nested deeper than {MAX_DEPTH} or more than {MAX_NODES} values")
        if is_too_long(value):
            raise CannotCarry(f"{path}: a text or number that is too long")
        scalar = encode_scalar(value)
        if scalar is not None:
            return scalar
        if isinstance(value, torch.Tensor) and not isinstance(kind_of(value), Sparse):
            return {"k": "tensor", "i": self._tensor(value, path)}
        if arrays.is_array(value):
            if not arrays.can_carry(value):
                raise CannotCarry(f"{path}: an array of dtype {value.dtype} cannot be carried")
            return {"k": "array", "i": self._tensor(arrays.as_tensor(value), path, key=id(value))}
        return self._container(value, path, depth + 1)

    def table(self) -> list[dict[str, Any]]:
        """Return the table of tensors that goes with the tree."""
        return [entry.describe() for entry in self.tensors]

    def parts(self) -> list[torch.Tensor]:
        """Return the bytes of the tensors where they are, in the order of the table."""
        return [bytes_of(entry.value) for entry in self.tensors if entry.nbytes]

    def write(self, arena: Arena) -> None:
        """Copy the bytes of all tensors into ``arena``. Raise :class:`TooLarge`."""
        if self.nbytes > arena.size:
            raise TooLarge(self.nbytes, arena.size)
        self.fill(arena.bytes)

    def fill(self, target: torch.Tensor) -> None:
        """Copy the bytes of all tensors to their places in a buffer on any device."""
        for entry in self.tensors:
            if entry.nbytes:
                target[entry.offset : entry.offset + entry.nbytes].copy_(bytes_of(entry.value))

    def _container(self, value: Any, path: str, depth: int) -> Any:
        kind, fields = kind_of(value), record_fields(value)
        if isinstance(kind, Sparse):
            return {"k": "sparse", "t": list(kind), "v": self._parts(value, fields or (), path)}
        if fields is None and isinstance(value, (list, tuple)):
            # Of all their classes, such as torch.return_types.max.
            items = [self.tree(item, f"{path}[{i}]", depth) for i, item in enumerate(value)]
            return {"k": "list" if isinstance(value, list) else "tuple", "v": items}
        if fields is None and isinstance(value, dict):
            return {"k": "dict", "v": [self._pair(key, item, path, depth) for key, item in value.items()]}
        if fields is None or "<locals>" in kind.__qualname__:
            what = f"a {kind.__module__}.{kind.__qualname__}"
            raise CannotCarry(f"{path}: {what} cannot be carried{instead(value) if fields is None else ''}")
        body = {name: self.tree(getattr(value, name), f"{path}.{name}", depth) for name in fields}
        return {"k": "record", "t": [kind.__module__, kind.__qualname__], "v": body}

    def _parts(self, value: torch.Tensor, names: tuple[str, ...], path: str) -> dict[str, Any]:
        if value.requires_grad:
            raise CannotCarry(f"{path}: a sparse tensor with gradients cannot be carried")
        keys = ((name, f"{path}.{name}", (id(value), name)) for name in names)
        return {n: {"k": "tensor", "i": self._tensor(part(value, n), at, key)} for n, at, key in keys}

    def _pair(self, key: object, item: object, path: str, depth: int) -> list[Any]:
        name = encode_scalar(key)
        if name is None:
            raise CannotCarry(f"{path}: a key of type {type(key).__name__} cannot be carried")
        if is_too_long(key):
            raise CannotCarry(f"{path}: a key that is too long")
        return [name, self.tree(item, f"{path}[{key!r}]", depth)]

    def _tensor(self, value: torch.Tensor, path: str, key: object = None) -> int:
        key = id(value) if key is None else key
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise CannotCarry(f"{path}: a tensor subclass ({type(value).__name__}) cannot be carried")
        if value.layout is not torch.strided or value.is_quantized or value.is_meta:
            raise CannotCarry(f"{path}: only dense and sparse tensors with data can be carried")
        if value.dtype not in DTYPES.values():
            raise CannotCarry(f"{path}: a tensor of dtype {value.dtype} cannot be carried")
        if key in self._seen:
            return self._seen[key]
        plain = value.resolve_conj().resolve_neg()
        entry = TensorEntry(plain, self._end, span_of(plain), path)
        self.tensors.append(entry)
        self._seen[key] = len(self.tensors) - 1
        self._end = aligned(self._end + entry.nbytes) + self._guard
        return self._seen[key]


def aligned(position: int) -> int:
    """Return the next place at which a tensor may begin."""
    return -(-position // ALIGNMENT) * ALIGNMENT


def is_opaque(dtype: torch.dtype) -> bool:
    """Return whether PyTorch cannot compute with a dtype: its elements are compared as bytes."""
    return OPAQUE.fullmatch(str(dtype)) is not None


def span_of(value: torch.Tensor) -> int:
    """Return the number of storage elements from the first to the last that the strides reach."""
    if value.numel() == 0:
        return 0
    return 1 + sum(int((size - 1) * stride) for size, stride in zip(value.shape, value.stride(), strict=True))


def bytes_of(value: torch.Tensor) -> torch.Tensor:
    """Return a nonempty tensor's memory as bytes, without a copy: all that its strides reach."""
    return torch.as_strided(value.detach(), (span_of(value),), (1,)).view(torch.uint8)


def encode_scalar(value: Any) -> dict[str, Any] | None:
    """Return the node of a scalar, None if ``value`` is not a scalar."""
    kind = type(value)
    if value is None:
        return {"k": "none"}
    if kind in (bool, int, str):
        return {"k": kind.__name__, "v": value}
    if kind is float:
        return {"k": "float", "v": float.hex(value)}
    if kind is complex:
        return {"k": "complex", "v": [value.real.hex(), value.imag.hex()]}
    if kind is bytes:
        return {"k": "bytes", "v": base64.b64encode(value).decode()}
    if arrays.is_number(value):
        return {"k": "number", "v": arrays.encoded(value)}
    if kind is torch.dtype:
        return {"k": "dtype", "v": str(value).removeprefix("torch.")}
    if kind is torch.device:
        return {"k": "device", "v": str(value)}
    return None


def is_too_long(value: Any) -> bool:
    """Return whether a text, bytes or an integer are too long for a frame."""
    if type(value) in (str, bytes):
        return len(value) > MAX_TEXT
    return type(value) is int and value.bit_length() > MAX_INT_BITS


def dense_strides(shape: list[int]) -> list[int]:
    """Return the strides of a contiguous tensor of that shape, as PyTorch counts them."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def with_tensors(
    value: Any,
    change: Callable[[torch.Tensor], torch.Tensor],
    other: Callable[[Any], Any] = lambda leaf: leaf,
    build: Callable[[Kind, dict[str, Any]], Any] = build_record,
) -> Any:
    """Return the value with ``change`` applied to every plain dense tensor and ``other`` to all other leaves.

    ``build`` makes a record of its fields.

    Arrays are changed as tensors. Containers of derived classes become plain ones, as on the wire.
    """
    if arrays.is_array(value):
        return arrays.as_array(change(arrays.as_tensor(value))) if arrays.can_carry(value) else value
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
        return change(value)
    inside = functools.partial(with_tensors, change=change, other=other, build=build)
    if (fields := record_fields(value)) is not None:
        return build(kind_of(value), {name: inside(part(value, name)) for name in fields})
    if isinstance(value, (list, tuple)):
        items = [inside(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: inside(item) for key, item in value.items()}
    return other(value)


def contiguous(value: Any) -> Any:
    """Return the value with every tensor contiguous: the agreed layout of outputs."""
    # The class's function: an instance may override it to compute something when it is called.
    detach = torch.Tensor.detach
    return with_tensors(value, lambda each: detach(each).resolve_conj().resolve_neg().contiguous())


def form_of(value: Any) -> Any:
    """Return the value with tensors of the same shape, dtype and device that store one element each."""

    def small(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)

    return with_tensors(value, small)


def outline(value: Any) -> Any:
    """Return what a contestant may know of the form of an answer: dicts for records, whose classes it may not have,
    and numbers and texts that are zero or empty in the place of others."""

    def blank(leaf: Any) -> Any:
        return type(leaf)() if isinstance(leaf, (bool, int, float, complex, str)) else leaf

    return with_tensors(value, lambda tensor: tensor, blank, lambda _kind, fields: fields)


def output_nbytes(value: Any, path: str = "value") -> int:
    """Return the bytes of arena that a value needs as an output.

    Raise :class:`CannotCarry` with ``path`` in its text.
    """
    encoder = Encoder(guarded=True)
    encoder.tree(contiguous(value), path)
    return encoder.nbytes
