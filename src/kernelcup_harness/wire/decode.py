"""Builds values from a tree, its table and the bytes of its tensors: nothing of it is trusted."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from kernelcup_harness.wire import arrays, sparse
from kernelcup_harness.wire.records import Fields, assembled, build_record, is_plain, misfit
from kernelcup_harness.wire.values import (
    DTYPES,
    GUARD_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    BadTree,
    Memory,
    aligned,
    dense_strides,
    encode_scalar,
    is_too_long,
)

RecordType = Callable[[str, str], type]


def importing_record_type(module: str, name: str) -> type:
    """Find the class of a record in a module that the process can import."""
    __import__(module)
    found: object = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    # The names must be the class's own, otherwise any class imported by the module could be built.
    if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module, name):
        raise BadTree(f"{module[:100]}.{name[:100]} is not a class of that module")
    return found


class Decoder:
    """Build values from a tree, its table and the bytes of its tensors.

    Nothing in the tree is trusted: names, counts, sizes and offsets are all checked, and
    :class:`BadTree` is raised if any is invalid. With ``dense``, tensors are contiguous and laid out
    as by a guarded :class:`Encoder`: the agreed form of outputs; :class:`sparse.Broken` is raised if the
    indices of a sparse one lie outside. Unless it ``runs``, no code of classes is run.
    """

    def __init__(
        self, memory: Memory, table: object, record_type: RecordType, *, dense: bool, runs: bool = True
    ) -> None:
        # An answer may hold anything, and this may be the judge; a class may not bear an input without its numbers.
        self._build = build_record if runs and not dense else assembled
        self._memory = memory
        self._record_type = record_type
        self._dense = dense
        self._nodes = 0
        self._end = GUARD_BYTES
        self.gaps: list[tuple[int, int]] = [(0, GUARD_BYTES)]
        """The bands of a guarded layout, from one position in the arena to another."""
        if not isinstance(table, list) or len(table) > MAX_NODES:
            raise BadTree("no table of tensors")
        self.tensors = [self._tensor(entry) for entry in table]

    def value(self, node: object, depth: int = 0) -> Any:
        self._nodes = self._nodes + 1 if depth else 1
        if not isinstance(node, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise BadTree("a tree that is too deep, too large, or has a node that is not an object")
        kind = node.get("k")
        build = BUILDERS.get(kind) if isinstance(kind, str) else None
        if build is None:
            raise BadTree(
                f"unknown kind of node {kind[:40]!r}" if isinstance(kind, str) else "a node without a kind"
            )
        # Hostile input may make anything fail, even the initialiser of a task's own class.
        try:
            value = build(self, node, depth + 1)
            if is_too_long(value):
                raise BadTree("a text or number that is too long")
            return value
        except (BadTree, sparse.Broken, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise BadTree(f"a malformed {node['k']} node") from error

    def tensor(self, node: dict[str, Any], _depth: int) -> torch.Tensor:
        index = node["i"]
        if type(index) is not int or index < 0:
            raise BadTree("a tensor without an index")
        return self.tensors[index]

    def array(self, node: dict[str, Any], depth: int) -> Any:
        return arrays.as_array(self.tensor(node, depth))

    def items(self, node: dict[str, Any], depth: int) -> list[Any]:
        return [self.value(item, depth) for item in node["v"]]

    def mapping(self, node: dict[str, Any], depth: int) -> dict[Any, Any]:
        pairs = [(self.value(key, depth), self.value(item, depth)) for key, item in node["v"]]
        if any(encode_scalar(key) is None for key, _ in pairs):
            raise BadTree("a key that is no scalar")
        # Keys with equal hashes are compared pair by pair: 49,000 take 40 s.
        if len(pairs) - len({hash(key) for key, _ in pairs}) > 8:
            raise BadTree("a mapping with too many keys of one hash")
        return dict(pairs)

    def record(self, node: dict[str, Any], depth: int) -> Any:
        module, name = node["t"]
        fields = {str(key): self.value(item, depth) for key, item in node["v"].items()}
        try:
            kind = self._record_type(str(module), str(name))
            if self._dense and is_plain(kind) and any(hasattr(kind, each) for each in fields):
                raise BadTree(f"{name} with an attribute of its class")
        except BadTree:
            if not self._dense:
                raise
            return Fields(fields)  # Whatever its class is; a tolerance that the class has is not replaced.
        if trouble := misfit(kind, fields.keys()):
            raise BadTree(f"{name} {trouble}")
        return self._build(kind, fields)

    def sparse(self, node: dict[str, Any], depth: int) -> torch.Tensor:
        """Build a sparse tensor; of an answer, whose indices a checker will follow, only one that is sound."""
        layout, shape, coalesced = node["t"]
        kind = sparse.Sparse(str(layout), natural_numbers(shape), bool(coalesced))
        parts = {str(name): self.value(each, depth) for name, each in node["v"].items()}
        whole = parts.keys() == set(sparse.PARTS[kind.layout])
        if not whole or not all(isinstance(part, torch.Tensor) for part in parts.values()):
            raise BadTree("a sparse tensor without its parts, or with others")
        return kind.built(parts, check=self._dense)

    def _tensor(self, entry: Any) -> torch.Tensor:
        try:
            return self._read_tensor(entry)
        except (BadTree, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise BadTree("a malformed tensor entry") from error

    def _read_tensor(self, entry: dict[str, Any]) -> torch.Tensor:
        dtype = DTYPES[entry["dtype"]]
        shape, strides = natural_numbers(entry["shape"]), natural_numbers(entry["strides"])
        offset, nbytes = natural_numbers([entry["offset"], entry["nbytes"]])
        if len(shape) != len(strides) or len(shape) > MAX_DEPTH:
            raise BadTree("a tensor with a malformed shape")
        if self._dense and list(strides) != dense_strides(shape):
            raise BadTree("a tensor with strides where a contiguous one was agreed")
        span = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if span * dtype.itemsize != nbytes or offset + nbytes > self._memory.size:
            raise BadTree("a tensor that does not lie in the arena")
        if self._dense:
            self._check_place(offset, nbytes)
        device = str(entry["device"])
        if device not in ("cpu", "cuda:0"):
            raise BadTree(f"a tensor on device {device[:20]!r}")
        flat = self._memory.take(device, offset, nbytes).view(dtype)
        value = torch.as_strided(flat, shape, strides) if nbytes else flat.reshape(shape)
        grad = bool(entry.get("grad"))
        # Only inputs may ask for gradients, not answers.
        wished = grad and not self._dense and (value.is_floating_point() or value.is_complex())
        return value.requires_grad_(True) if wished else value

    def _check_place(self, offset: int, nbytes: int) -> None:
        """Refuse any other layout: overlapping entries would have the same bytes copied repeatedly."""
        if offset != self._end:
            raise BadTree("a tensor that lies elsewhere than agreed")
        self._end = aligned(offset + nbytes) + GUARD_BYTES
        self.gaps.append((offset + nbytes, self._end))


def natural_numbers(values: Any) -> list[int]:
    """Return ``values`` if they are integers of at least 0 and below 2**62."""
    numbers = list(values)
    if any(type(number) is not int or not 0 <= number < 2**62 for number in numbers):
        raise BadTree("a number that is not a size")
    return numbers


def device_of(name: str) -> torch.device:
    """Return the device of that name, if a value may name it."""
    if re.fullmatch(r"cpu|meta|cuda(:[0-9]{1,2})?", name) is None:
        raise BadTree(f"a device called {name[:20]!r}")
    return torch.device(name)


def scalar(kind: type) -> Callable[[Decoder, dict[str, Any], int], Any]:
    """Return a builder that accepts exactly one type."""

    def build(_decoder: Decoder, node: dict[str, Any], _depth: int) -> Any:
        if type(node["v"]) is not kind:
            raise BadTree(f"a {kind.__name__} node that holds none")
        return node["v"]

    return build


BUILDERS: dict[str, Callable[[Decoder, dict[str, Any], int], Any]] = {
    "none": lambda _decoder, _node, _depth: None,
    "bool": scalar(bool),
    "int": scalar(int),
    "str": scalar(str),
    "float": lambda _decoder, node, _depth: float.fromhex(node["v"]),
    "complex": lambda _decoder, node, _depth: complex(*(float.fromhex(part) for part in node["v"])),
    "bytes": lambda _decoder, node, _depth: base64.b64decode(node["v"], validate=True),
    "number": lambda _decoder, node, _depth: arrays.decoded(*node["v"]),
    "dtype": lambda _decoder, node, _depth: DTYPES[node["v"]],
    "device": lambda _decoder, node, _depth: device_of(node["v"]),
    "tensor": Decoder.tensor,
    "array": Decoder.array,
    "list": Decoder.items,
    "tuple": lambda decoder, node, depth: tuple(decoder.items(node, depth)),
    "dict": Decoder.mapping,
    "record": Decoder.record,
    "sparse": Decoder.sparse,
}


def take_leaves(node: Any) -> list[Any]:
    """Take numbers and texts out of an encoder's tree, so that nothing is in their places; return them in its order."""
    kind, inside = node["k"], node.get("v")
    if kind in ("list", "tuple", "dict", "record", "sparse"):
        parts = inside.values() if isinstance(inside, dict) else inside
        return [leaf for part in parts for leaf in take_leaves(part[1] if kind == "dict" else part)]
    if kind in ("tensor", "array"):
        return []
    leaf = dict(node)
    node.clear()
    node["k"] = "none"
    return [leaf]
