"""The layout of a case's inputs and answers in the window.

Each place has inputs of its own. Tensors that a call must not write lie together, so that the timer can map them
read-only; the others lie elsewhere, between bands that must not be written. All cases of a job share the same
addresses: inputs are written before each call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness.window.addresses import WINDOW, granules
from kernelcup_harness.wire import aliasing, decode, values

HEAPS = {"submission": WINDOW, "rival": WINDOW + (128 << 30), "hidden": WINDOW + (512 << 30)}
"""First address of each contestant's own tensors."""
INPUTS = WINDOW + (256 << 30)
WRITABLE = WINDOW + (384 << 30)
HIDDEN_FROM = 64 << 30
"""Distance of the inputs of hidden cases from those of public ones, which another contestant maps."""
BAND = 4096
"""Bytes before and after each writable input tensor."""

CONTAINERS = ("list", "tuple", "dict", "record", "sparse")
"""Kinds of nodes of a tree that hold others."""

View = Callable[[int, int], torch.Tensor]
"""Returns the bytes at an address (address, size) as a tensor, which does not own them."""


class CannotLie(ValueError):
    """Part of a value cannot lie in the window: it is in host memory or on another device."""


class TooMany(ValueError):
    """An answer has more tensors than the judge reads."""


class Differs(ValueError):
    """The form of an input differs from that of earlier ones."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of an input in a window.

    Args:
        address: Its address at the first place.
        nbytes: Its size.
        step: Distance in bytes between neighbouring places.
        writable: Whether calls may write it.
    """

    address: int
    nbytes: int
    step: int
    writable: bool

    def at(self, place: int) -> int:
        """Return its address at a place."""
        return self.address + place * self.step


class Layout:
    """The inputs of one case.

    Args:
        data: One input.
        places: Number of inputs that lie in the window at once.
        writable: Numbers of the tensors, in the order of the tree, that calls may write.
        device: The device on which all tensors have to be.
        away: Distance of its addresses from :data:`INPUTS` and :data:`WRITABLE`.
    """

    def __init__(
        self, data: Any, *, places: int, writable: Collection[int], device: str, away: int = 0
    ) -> None:
        encoder, self.tree = encoded(data)
        self.table = encoder.table()
        if any(each["device"] != device for each in self.table):
            raise CannotLie("a tensor of the input")
        self.places = places
        # The same tensor may occur in the tree twice.
        numbers = {index for number, index in enumerate(tensors_of(self.tree)) if number in writable}
        self.away = away
        self.entries = list(self._entries([each["nbytes"] for each in self.table], numbers))

    @property
    def input_bytes(self) -> int:
        """Bytes of the read-only tensors of all places."""
        return self._bytes(writable=False)

    @property
    def place_bytes(self) -> int:
        """Bytes of one input."""
        return sum(entry.nbytes for entry in self.entries)

    @property
    def writable_bytes(self) -> int:
        """Bytes of the writable tensors of all places."""
        return self._bytes(writable=True)

    def table_at(self, place: int) -> list[dict[str, Any]]:
        """Return the table of an input that lies at a place; offsets count from the window's beginning."""
        return [
            {**each, "offset": entry.at(place) - WINDOW}
            for each, entry in zip(self.table, self.entries, strict=True)
        ]

    def write(self, data: Any, place: int, view: View) -> None:
        """Write an input to a place. Raise :class:`Differs`."""
        for target, source in self.copies(data, place, view):
            target.copy_(source)

    def copies(self, data: Any, place: int, view: View) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the copies that write an input to a place: pairs of target and source. Raise :class:`Differs`."""
        encoder, tree = encoded(data)
        if tree != self.tree or encoder.table() != self.table:
            raise Differs
        return [
            (view(entry.at(place), entry.nbytes), values.bytes_of(mine.value))
            for mine, entry in zip(encoder.tensors, self.entries, strict=True)
            if entry.nbytes
        ]

    def changed(self, data: Any, place: int, view: View) -> list[int]:
        """Return the read-only tensors whose contents have changed, by number in the tree."""
        encoder, _ = encoded(data)
        wrong = {
            index
            for index, (mine, entry) in enumerate(zip(encoder.tensors, self.entries, strict=True))
            if entry.nbytes and not entry.writable
            if not torch.equal(view(entry.at(place), entry.nbytes), values.bytes_of(mine.value))
        }
        return [number for number, index in enumerate(tensors_of(self.tree)) if index in wrong]

    def spans(self, place: int) -> list[range]:
        """Return the addresses of each tensor of the tree at a place."""
        return [
            range(self.entries[index].at(place), self.entries[index].at(place) + self.entries[index].nbytes)
            for index in tensors_of(self.tree)
        ]

    def bands(self, place: int) -> list[tuple[int, int]]:
        """Return address and size of the bands around the writable tensors of a place."""
        found = []
        for entry in self.entries:
            if entry.writable and entry.nbytes:
                end = entry.at(place) + entry.nbytes
                after = entry.at(place) + values.aligned(entry.nbytes) + BAND
                found += [(entry.at(place) - BAND, BAND), (end, after - end)]
        return found

    def _entries(self, sizes: Sequence[int], writable: Collection[int]) -> Iterator[Entry]:
        steps = {True: 0, False: 0}
        starts = []
        for index, nbytes in enumerate(sizes):
            may = index in writable
            starts.append(steps[may] + (BAND if may else 0))
            steps[may] = starts[-1] + values.aligned(nbytes) + (BAND if may else 0)
        # Whole pages apart, so that every place has the alignment of the first.
        whole = {may: -(-size // 4096) * 4096 for may, size in steps.items()}
        for index, nbytes in enumerate(sizes):
            may = index in writable
            first = (WRITABLE if may else INPUTS) + self.away
            yield Entry(first + starts[index], nbytes, whole[may], may)

    def _bytes(self, *, writable: bool) -> int:
        steps = [entry.step for entry in self.entries if entry.writable is writable]
        return granules(self.places * steps[0]) if steps and steps[0] else 0


def encoded(data: Any) -> tuple[values.Encoder, Any]:
    """Return the encoder that carries a value, and the value's tree."""
    encoder = values.Encoder()
    return encoder, encoder.tree(data, "input")


def tensors_of(tree: Any) -> list[int]:
    """Return the table indices of all tensors of a tree, in its order. Decode a contestant's tree first."""
    if isinstance(tree, list):
        return [index for each in tree for index in tensors_of(each)]
    if not isinstance(tree, dict):
        return []
    if tree.get("k") == "tensor":
        return [tree["i"]]
    # Decoders read nothing of other nodes: anything may be there.
    value = tree.get("v") if tree.get("k") in CONTAINERS else None
    return tensors_of(list(value.values()) if isinstance(value, dict) else value)


def input_bytes(data: Any) -> int:
    """Return the bytes of the tensors of an input."""
    return sum(values.span_of(each) * each.element_size() for each in aliasing.leaves(data))


class WindowMemory:
    """The window as the memory of a tree's tensors: offsets count from its beginning.

    Args:
        view: Returns memory as a tensor.
        size: Number of addresses.
    """

    def __init__(self, view: View, size: int) -> None:
        self._view = view
        self.size = size

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return a tensor's bytes in place, without a copy."""
        if not nbytes:
            return torch.empty(0, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")
        return self._view(WINDOW + offset, nbytes)


@dataclass(frozen=True, slots=True)
class Described:
    """An answer's form and addresses, as described by a contestant: read once, and checked."""

    tree: Any
    table: list[dict[str, Any]]
    """In the layout of guarded outputs, as :class:`decode.Decoder` expects it."""
    addresses: list[int]
    end: int
    used: list[int]
    """The tensors of the table in the order of the tree; all of them."""


def described(reply: Any, *, inside: Sequence[range], device: str, most_bytes: int, most: int) -> Described:
    """Read a contestant's description of an answer.

    Raise ``BadTree``, ``TooLarge``, :class:`TooMany`, or :class:`CannotLie` for other memory.
    """
    table = reply.get("table") if isinstance(reply, dict) else None
    if not isinstance(table, list):
        raise values.BadTree("no table of tensors")
    if len(table) > most:
        raise TooMany(f"{len(table)} tensors")
    end, found, addresses = values.GUARD_BYTES, [], []
    for each in table:
        if not isinstance(each, dict) or each.get("device") != device:
            raise CannotLie("a tensor of the answer")
        address, nbytes = decode.natural_numbers([each.get("address"), each.get("nbytes")])
        if nbytes and not any(address in span and address + nbytes <= span.stop for span in inside):
            raise CannotLie("a tensor of the answer")
        shape = each.get("shape")
        if not isinstance(shape, list) or len(shape) > values.MAX_DEPTH:
            raise values.BadTree("a tensor with a malformed shape")
        shape = decode.natural_numbers(shape)
        names = {"dtype": each.get("dtype"), "shape": shape, "strides": values.dense_strides(shape)}
        found.append({**names, "offset": end, "nbytes": nbytes, "device": device, "grad": False})
        addresses.append(address)
        end = values.aligned(end + nbytes) + values.GUARD_BYTES
    if end > most_bytes:
        raise values.TooLarge(end, most_bytes)
    try:
        used = tensors_of(reply.get("tree"))
        if set(used) != set(range(len(found))):
            raise values.BadTree("a table with tensors that the tree does not use")
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise values.BadTree("a malformed tree") from error
    return Described(reply.get("tree"), found, addresses, end, used)


class AnswerMemory:
    """The tensors of an answer where a replay leaves them; :meth:`take` copies.

    Args:
        answer: Describes where they are.
        view: Returns memory as a tensor.
    """

    def __init__(self, answer: Described, view: View) -> None:
        self._at = {
            (entry["offset"], entry["nbytes"]): address
            for entry, address in zip(answer.table, answer.addresses, strict=True)
        }
        self._view = view
        self.size = answer.end

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return a copy of a tensor's bytes."""
        if not nbytes:
            return torch.empty(0, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")
        return self._view(self._at[offset, nbytes], nbytes).clone()


def sharing(answer: Described, spans: Sequence[range]) -> tuple[int, ...]:
    """Return the tensors of the input that a decoded answer overlaps by its addresses, by number.

    Args:
        answer: The answer.
        spans: The addresses of each tensor of the input.
    """
    places = {(answer.addresses[each], answer.table[each]["nbytes"]) for each in answer.used}
    return tuple(number for number, span in enumerate(spans) if any(overlap(*each, span) for each in places))


def overlap(address: int, nbytes: int, span: range) -> bool:
    """Return whether some bytes overlap a range of addresses."""
    return bool(nbytes) and len(span) > 0 and address < span.stop and span.start < address + nbytes
