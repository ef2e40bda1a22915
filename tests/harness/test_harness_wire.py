"""Value trees: what crosses unchanged, what is refused, and that no hostile tree does harm."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import json
import math
import mmap
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kernelcup_harness.core.structure import structure_fault
from kernelcup_harness.explain import differences
from kernelcup_harness.wire import aliasing, decode, records, sparse
from kernelcup_harness.wire import values as wire
from kernelcup_harness.wire.decode import Decoder
from kernelcup_harness.wire.values import Arena, BadTree, CannotCarry, Encoder, TooLarge
from properties import examples

Pair = collections.namedtuple("Pair", "left right")
INT64_MAX = 2**63 - 1


@dataclasses.dataclass
class Config:
    """A record with a default and a field that ``__init__`` does not take."""

    values: Any
    name: str = "plain"
    derived: Any = dataclasses.field(init=False, default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    value: Any


@dataclasses.dataclass
class Picky:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise RuntimeError("a size below zero")


def find_record(module: str, name: str) -> type:
    found = globals().get(name)
    if module != __name__ or not isinstance(found, type):
        raise BadTree(f"no class {module}.{name}")
    return found


class Bag:
    """A plain class: its objects are their attributes."""

    tolerance = 0.5

    def __init__(self, size: int) -> None:
        self.size = torch.arange(size)
        self.names = ["a", "b"]


class Derived(Bag):
    """A class that is not plain."""


class Wire:
    """Carries values through an arena as judge and contestant do."""

    def __init__(self) -> None:
        self.arena = Arena.create(1 << 16)

    def carry(self, value: Any, *, dense: bool = False) -> Any:
        """Return what arrives on the other side, through JSON text."""
        encoder = Encoder(guarded=dense)
        body = json.loads(json.dumps([encoder.tree(value), encoder.table()]))
        encoder.write(self.arena)
        return Decoder(self.arena, body[1], find_record, dense=dense).value(body[0])

    def decode(self, tree: Any, table: Any = (), *, dense: bool = True) -> Any:
        return Decoder(self.arena, list(table), find_record, dense=dense).value(tree)


@pytest.fixture
def line() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.arena.close()


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are of one type and equal, NaN with NaN."""
    if structure_fault(left, right) or type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor) and left.layout is torch.strided:
        return same_tensor(left, right)
    if type(left) in (list, tuple):
        return all(map(same, left, right))
    if type(left) is dict:
        return list(map(repr, left)) == list(map(repr, right)) and all(
            map(same, left.values(), right.values())
        )
    fields = records.record_fields(left)
    if fields is not None:
        return all(same(records.part(left, name), records.part(right, name)) for name in fields)
    return repr(left) == repr(right)


def same_tensor(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors agree bit by bit, strides and gradient flag included."""
    plain = left.detach().resolve_conj().resolve_neg()
    bits = [each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (plain, right)]
    return (
        left.requires_grad == right.requires_grad
        and left.dtype == right.dtype
        and torch.equal(*bits)
        and (plain.is_contiguous() or plain.stride() == right.stride())
    )


# Round trips


SCALARS = [None, True, False, 0, -1, 2**200, -(2**63), 1 + 2j, complex(math.nan, -math.inf)]
SCALARS += [0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf]
SCALARS += ["", "text", "Grüße \x00 \u2028 \ud800", torch.float16, torch.int64, torch.float8_e4m3fn]
SCALARS += [torch.device("cpu"), torch.device("cuda", 0)]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_a_scalar_crosses_with_its_type(line: Wire, value: Any) -> None:
    assert same(value, line.carry(value))


@pytest.mark.parametrize(
    "value",
    [
        (),
        [],
        {},
        (1, [2, (3,)], {"a": {"b": []}}),
        {1: "one", "1": "text", None: 0, False: 2, 1.5: 3, (2j): 4},
        Pair(1, Pair([2], None)),
        Config([1, 2]),
        Frozen(Frozen((1, Pair(2, 3)))),
        {"config": Config({"x": Frozen(torch.ones(2))}), "dtype": torch.bfloat16},
    ],
    ids=repr,
)
def test_a_nest_crosses_with_the_types_and_order_of_its_parts(line: Wire, value: Any) -> None:
    assert same(value, line.carry(value))


def test_a_field_that_is_no_argument_crosses_too(line: Wire) -> None:
    config = Config(1)
    config.derived = (2, 3)
    assert line.carry(config) == config


def sparse_tensors() -> dict[str, torch.Tensor]:
    """Return a sparse tensor of each kind that may cross."""
    dense = torch.where(torch.arange(24.0).reshape(4, 6) % 5 == 0, 3.0, 0.0)
    some = torch.tensor([[3, 0, 3], [1, 5, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "coo": dense.to_sparse_coo(),
            "coo of vectors": torch.arange(12.0).reshape(2, 3, 2).to_sparse(1),
            "coo in any order": torch.sparse_coo_tensor(some, torch.ones(3), (4, 6)),
            "coo without elements": torch.zeros(3, 2).to_sparse_coo(),
            "csr": dense.to_sparse_csr(),
            "csr of a batch": torch.stack([dense, dense]).to_sparse_csr(),
            "csr of whole numbers": dense.int().to_sparse_csr(),
            "csc": dense.to_sparse_csc(),
            "bsr": dense.to_sparse_bsr((2, 3)),
            "bsc": dense.to_sparse_bsc((2, 2)),
        }


@pytest.mark.parametrize("kind", sparse_tensors())
@pytest.mark.parametrize("dense", [False, True], ids=["input", "answer"])
def test_a_sparse_tensor_crosses_with_its_parts(line: Wire, kind: str, dense: bool) -> None:
    value = sparse_tensors()[kind]
    found = line.carry([wire.contiguous(value) if dense else value] * 2, dense=dense)[1]
    assert records.kind_of(found) == records.kind_of(value)
    assert all(same(*pair) for _, *pair in aliasing.leaf_pairs(value, found))


@pytest.mark.parametrize("kind", sorted(sparse_tensors().keys() - {"coo without elements"}))
def test_an_answer_whose_indices_lie_outside_is_refused_and_an_input_is_not_looked_at(
    line: Wire, kind: str
) -> None:
    value = sparse_tensors()[kind]
    form = records.kind_of(value)
    names = records.record_fields(value)
    assert isinstance(form, sparse.Sparse)
    parts = {name: records.part(value, name).contiguous() for name in names}
    outside = form.built({**parts, names[-2]: parts[names[-2]] + 100})
    line.carry(outside)
    with pytest.raises(sparse.Broken, match="contradicts itself"):
        line.carry(outside, dense=True)


def test_an_answer_that_says_that_its_indices_are_in_order_has_to_have_them_in_order(line: Wire) -> None:
    value = sparse_tensors()["coo in any order"]
    claimed = sparse.Sparse("sparse_coo", [4, 6], coalesced=True)
    parts = {"_indices()": value._indices(), "_values()": value._values()}
    with pytest.raises(sparse.Broken):
        line.carry(claimed.built(parts), dense=True)


COO: dict[str, Any] = {name: {"k": "int", "v": 0} for name in sparse.PARTS["sparse_coo"]}
NO_SPARSE: list[dict[str, Any]] = [
    *({"t": [each, [1], False], "v": {}} for each in ("sparse_csr", "strided", "float32")),
    {"t": ["sparse_csr", [1], False], "v": {"crow_indices()": {"k": "none"}}},
    *({"t": ["sparse_coo", [1], False], "v": each} for each in (COO, [])),
    *({"t": each, "v": {}} for each in (["sparse_coo", [-1], False], ["sparse_coo"], None)),
    {},
]


@pytest.mark.parametrize("node", NO_SPARSE, ids=repr)
@pytest.mark.parametrize("dense", [False, True])
def test_a_sparse_tensor_that_is_none_is_refused(line: Wire, node: dict[str, Any], dense: bool) -> None:
    with pytest.raises(BadTree):
        line.decode({"k": "sparse", **node}, dense=dense)


def tensors() -> dict[str, torch.Tensor]:
    base = torch.arange(24.0).reshape(2, 3, 4)
    return {
        "bool": torch.tensor([True, False, True]),
        "uint8": torch.arange(5, dtype=torch.uint8),
        "int8": torch.tensor([-128, 127], dtype=torch.int8),
        "int16": torch.tensor([-5], dtype=torch.int16),
        "int32": torch.arange(6, dtype=torch.int32).reshape(3, 2),
        "int64": torch.tensor([-(2**63), INT64_MAX]),
        "uint16": torch.tensor([65535], dtype=torch.uint16),
        "uint32": torch.tensor([2**32 - 1], dtype=torch.uint32),
        "uint64": torch.tensor([5], dtype=torch.uint64),
        "float16": base.half(),
        "bfloat16": base.bfloat16(),
        "float64": base.double(),
        "e4m3fn": base.to(torch.float8_e4m3fn),
        "e5m2": base.to(torch.float8_e5m2),
        "e8m0fnu": torch.tensor([1.0, 2.0]).to(torch.float8_e8m0fnu),
        "complex64": torch.tensor([1 + 2j, 3 - 4j]),
        "complex128": torch.tensor([1 + 2j], dtype=torch.complex128),
        "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
        "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
        "imaginary part": torch.tensor([1 + 2j, 3 - 4j]).imag,
        "special values": torch.tensor([math.nan, math.inf, -math.inf, -0.0]),
        "0-d": torch.tensor(5.0),
        "0-d of a view": base[1, 2, 3],
        "empty": torch.empty(0),
        "empty matrix": torch.empty(3, 0, 2),
        "transposed": base.transpose(0, 2),
        "permuted": base.permute(2, 0, 1),
        "channels last": torch.ones(1, 3, 2, 2).to(memory_format=torch.channels_last),
        "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 5),
        "expanded from one": torch.tensor(3.0).expand(4, 4),
        "sliced": base[:, 1:],
        "with a step": base[:, ::2, 1::2],
        "a column": base[:, :, 1],
        "overlapping": torch.arange(6.0).as_strided((4, 3), (1, 1)),
        "size 1": torch.ones(1, 4, 1),
        "size 1, odd strides": torch.ones(4).as_strided((1, 4, 1), (77, 1, 99)),
        "size 1, transposed": torch.ones(1, 4).t(),
        "requires grad": torch.ones(3, requires_grad=True),
        "not a leaf": torch.ones(3, requires_grad=True) * 2,
    }


@pytest.mark.parametrize("name", tensors())
def test_a_tensor_crosses_bit_by_bit_with_its_strides(line: Wire, name: str) -> None:
    value = tensors()[name]
    assert same(value, line.carry(value))


@pytest.mark.parametrize("name", tensors())
def test_a_contiguous_copy_crosses_where_that_was_agreed(line: Wire, name: str) -> None:
    value = wire.contiguous(tensors()[name])
    arrived = line.carry(value, dense=True)
    assert same(value, arrived)
    assert arrived.is_contiguous()
    assert not arrived.requires_grad


def test_a_complex_tensor_keeps_its_wish_for_a_gradient(line: Wire) -> None:
    assert line.carry(torch.tensor([1 + 2j], requires_grad=True)).requires_grad


def test_a_parameter_arrives_as_a_tensor(line: Wire) -> None:
    arrived = line.carry(torch.nn.Parameter(torch.ones(2)))
    assert type(arrived) is torch.Tensor
    assert arrived.requires_grad


ARRAYS = {
    "floats": np.arange(6, dtype=np.float32).reshape(2, 3),
    "halves": np.array([0.5, np.nan], dtype=np.float16),
    "columns": np.arange(6.0).reshape(2, 3).T,
    "backwards": np.arange(5)[::-1],
    "bytes": np.frombuffer(b"read only", dtype=np.uint8),
    "booleans": np.array([True, False]),
    "complex": np.array([1 + 2j]),
    "scalar": np.array(3, dtype=np.int16),
    "empty": np.zeros((0, 4), dtype=np.uint16),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_crosses_as_an_array(line: Wire, name: str) -> None:
    arrived = line.carry({"there": ARRAYS[name]})["there"]
    assert type(arrived) is np.ndarray
    assert arrived.dtype == ARRAYS[name].dtype
    np.testing.assert_array_equal(arrived, ARRAYS[name])


def test_an_array_of_an_answer_crosses_densely_laid_out(line: Wire) -> None:
    value = wire.contiguous([ARRAYS["columns"], ARRAYS["backwards"]])
    for arrived, sent in zip(line.carry(value, dense=True), value, strict=True):
        np.testing.assert_array_equal(arrived, sent)


@pytest.mark.parametrize(
    "value",
    [np.float32(0.1), np.float16("nan"), np.int64(-5), np.bool_(True), np.complex64(1j), b"", b"\0\xff"],
)
def test_numbers_of_numpy_and_bytes_cross_with_their_type(line: Wire, value: Any) -> None:
    arrived = line.carry([value])[0]
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value)


@pytest.mark.parametrize(
    "node",
    [
        {"k": "number", "v": ["O", "00" * 8]},
        {"k": "number", "v": ["f", "00"]},
        {"k": "number", "v": ["f", "00" * 8]},
        {"k": "number", "v": ["f4,f4", "00" * 8]},
        {"k": "bytes", "v": "no base64!"},
        {"k": "array", "i": 0},
    ],
)
def test_a_malformed_number_or_array_is_refused(line: Wire, node: Any) -> None:
    with pytest.raises(BadTree):
        line.decode(node)


def test_a_tensor_that_occurs_twice_is_written_once_and_arrives_as_one(line: Wire) -> None:
    value = torch.ones(5)
    encoder = Encoder()
    encoder.tree([value, {"again": value}])
    assert len(encoder.table()) == 1
    left, right = line.carry([value, value])
    assert left is right


def test_neighbours_in_the_arena_do_not_touch(line: Wire) -> None:
    values = [torch.full((n,), float(n)) for n in (1, 64, 65, 0, 7)]
    encoder = Encoder()
    encoder.tree(values)
    table = encoder.table()
    assert all(entry["offset"] % wire.ALIGNMENT == 0 for entry in table)
    ends = [entry["offset"] + entry["nbytes"] for entry in table]
    assert all(end <= following["offset"] for end, following in zip(ends, table[1:], strict=False))
    assert same(values, line.carry(values))


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text())
LEAVES |= st.sampled_from(list(tensors().values()))
KEYS = st.one_of(st.text(), st.integers(), st.none())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(KEYS, inner),
        st.builds(Pair, inner, inner),
        st.builds(Config, inner),
        st.builds(Frozen, inner),
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(100))
@given(VALUES)
def test_any_value_crosses(line: Wire, value: Any) -> None:
    assert same(value, line.carry(value))


def test_a_nest_of_the_greatest_depth_crosses_and_one_more_does_not(line: Wire) -> None:
    nest: list[Any] = []
    for _ in range(wire.MAX_DEPTH - 1):
        nest = [nest]
    assert same(nest, line.carry(nest))
    deeper = [[nest]]
    with pytest.raises(CannotCarry, match="nested"):
        line.carry(deeper)


def test_what_is_too_long_to_be_decoded_is_refused_where_it_comes_from() -> None:
    """There its path is known, and whose value it is."""
    with pytest.raises(CannotCarry, match="value"):
        Encoder().tree([1] * (wire.MAX_NODES + 1))


# What cannot cross


class Subclass(torch.Tensor):
    """A tensor with a mind of its own."""


class Colour(enum.IntEnum):
    RED = 1


def local_record() -> Any:
    """Return a record whose class no other process can find."""

    @dataclasses.dataclass
    class Local:
        size: int

    return Local(1)


CANNOT = [
    ({"a": [1, {2}]}, "value['a'][1]", "set"),
    ((1, len), "value[1]", "builtin_function_or_method"),
    ([lambda: 0], "value[0]", "function"),
    (Config(torch.nn.Linear(1, 1)), "value.values", "Linear cannot be carried: hand over its `state_dict()`"),
    (Pair(1, Derived(1)), "value.right", "Derived cannot be carried: make it a dataclass"),
    (Pair(1, functools.partial(len)), "value.right", "partial cannot be carried"),
    (Pair(1, object()), "value.right", "object"),
    ([np.array(["text"])], "value[0]", "dtype <U4"),
    ([np.array([1, "x"], dtype=object)], "value[0]", "dtype object"),
    ([np.arange(3).astype(">i4")], "value[0]", "dtype >i4"),
    ([np.ma.masked_array([1.0])], "value[0]", "MaskedArray"),
    ([np.datetime64("2026-01-01")], "value[0]", "datetime64"),
    ([bytearray(b"x")], "value[0]", "bytearray"),
    ([bytes(1 << 20) + b"x"], "value[0]", "too long"),
    ([local_record()], "value[0]", "<locals>"),
    ([range(3)], "value[0]", "range"),
    ([Colour.RED], "value[0]", "Colour"),
    ([torch.Generator()], "value[0]", "Generator"),
    ({(1, 2): 3}, "value", "tuple"),
    ([torch.ones(2).as_subclass(Subclass)], "value[0]", "Subclass"),
    ([torch.ones(2, requires_grad=True).to_sparse()], "value[0]", "gradients"),
    ([torch.ones(2, device="meta")], "value[0]", "dense"),
    ([Config], "value[0]", "type"),
]


@pytest.mark.parametrize(("value", "path", "what"), CANNOT, ids=[each[2] for each in CANNOT])
def test_what_cannot_be_carried_is_refused_with_its_path(value: Any, path: str, what: str) -> None:
    with pytest.raises(CannotCarry) as refusal:
        Encoder().tree(value)
    assert str(refusal.value).startswith(path + ":")
    assert what in str(refusal.value)


def test_tensors_beyond_the_arena_are_refused(line: Wire) -> None:
    encoder = Encoder()
    encoder.tree(torch.ones(1 << 16))
    with pytest.raises(TooLarge) as refusal:
        encoder.write(line.arena)
    assert (refusal.value.needed, refusal.value.allowed) == (1 << 18, 1 << 16)


# Hostile trees


def entry(**changes: Any) -> dict[str, Any]:
    """Return the table entry of four floats, with changes."""
    plain = {
        "dtype": "float32",
        "shape": [2, 2],
        "strides": [2, 1],
        "offset": wire.GUARD_BYTES,
        "nbytes": 16,
        "device": "cpu",
        "grad": False,
    }
    return plain | changes


TENSOR = {"k": "tensor", "i": 0}


def test_the_plain_entry_is_accepted(line: Wire) -> None:
    assert line.decode(TENSOR, [entry()]).shape == (2, 2)


UNFIT: list[dict[str, Any]] = [
    *({"dtype": each} for each in ("float31", None, ["float32"], "float64")),
    *({"shape": each} for each in ([2, -2], [-2, -2], [2.0, 2], "22", None, 4, [2])),
    {"shape": [True, 4], "strides": [4, 1]},
    {"shape": [2**61, 2**61], "strides": [2**61, 1]},
    {"shape": [2**62], "strides": [1]},
    {"shape": [2**31, 2**31], "strides": [2**31, 1], "nbytes": 2**64},
    {"shape": [1] * 100, "strides": [1] * 100, "nbytes": 4},
    {"shape": [0, 2**61], "strides": [2**61, 1]},
    {"strides": [0, 0], "nbytes": 4},
    *({"strides": each} for each in ([-2, 1], [1, 1], [2**60, 1])),
    *(
        {"offset": each}
        for each in (-1, 0, wire.GUARD_BYTES + wire.ALIGNMENT, 1 << 16, (1 << 16) - 15, 2**62)
    ),
    *({"offset": each} for each in ("0", 0.0, None)),
    *({"nbytes": each} for each in (15, 17, -16, True)),
    *({"device": each} for each in ("cuda:1", "meta", "cuda", None, "cpu" * 1000)),
]


@pytest.mark.parametrize("changes", UNFIT, ids=repr)
def test_an_entry_that_does_not_fit_is_refused(line: Wire, changes: dict[str, Any]) -> None:
    with pytest.raises(BadTree):
        line.decode(TENSOR, [entry(**changes)])


@pytest.mark.parametrize("key", ["dtype", "shape", "strides", "offset", "nbytes", "device"])
def test_an_entry_without_a_part_is_refused(line: Wire, key: str) -> None:
    bad = entry()
    del bad[key]
    with pytest.raises(BadTree):
        line.decode(TENSOR, [bad])


def test_entries_that_overlap_do_not_multiply_the_memory_of_the_reader(line: Wire) -> None:
    """The encoder never makes them; 100,000 of them on an arena of 64 MiB would need 6 TiB."""
    whole = entry(dtype="uint8", shape=[line.arena.size], strides=[1], nbytes=line.arena.size)
    with pytest.raises(BadTree):
        line.decode(TENSOR, [whole] * 50)


def test_the_reader_of_outputs_does_not_follow_a_wish_for_gradients(line: Wire) -> None:
    """A checker may not be able to work on a tensor that requires them: ``.numpy()`` is refused."""
    try:
        value = line.decode(TENSOR, [entry(grad=True)], dense=True)
    except BadTree:
        return
    assert not value.requires_grad


NONE = {"k": "none"}
BAD_TREES: list[Any] = [
    *(None, 5, "text", [], {}, {"k": None}, {"k": ["list"]}, {"k": "module"}, {"k": "tensor"}, {"k": "str"}),
    *({"k": "tensor", "i": each} for each in (-1, 5, True, "0", 2**70)),
    *({"k": "int", "v": each} for each in (True, 1.0, "1")),
    *({"k": "bool", "v": 1}, {"k": "str", "v": None}),
    *({"k": "float", "v": each} for each in (1.5, "one", "0x1p99999")),
    *({"k": "complex", "v": each} for each in (["0x1p0"] * 3, 1)),
    *({"k": "dtype", "v": each} for each in ("no", {})),
    *({"k": "device", "v": each} for each in ("bogus", "cuda:-1", "cpu:99999999999", "", None, ["cpu"])),
    *({"k": "list", "v": each} for each in (5, None, [5], {"a": 1})),
    *({"k": "dict", "v": each} for each in ([[1]], [1], {"a": 1}, [[{"k": "list", "v": []}, NONE]])),
    {"k": "dict", "v": [[{"k": "dict", "v": []}, NONE]]},
    *({"k": "record", "v": {}}, {"k": "record", "t": "abc", "v": {}}),
    *({"k": "record", "t": [__name__, each], "v": {}} for each in ("Derived", "Pair", "Config")),
    {"k": "record", "t": [__name__, "Pair"], "v": []},
    {"k": "record", "t": [__name__, "Pair"], "v": {"left": NONE, "up": NONE}},
    {"k": "record", "t": [__name__, "Frozen"], "v": {"value": NONE, "other": NONE}},
]


@pytest.mark.parametrize("tree", BAD_TREES, ids=repr)
def test_a_tree_that_is_none_is_refused(line: Wire, tree: Any) -> None:
    with pytest.raises(BadTree):
        line.decode(tree)


def test_a_record_that_refuses_its_values_is_refused_where_its_class_runs_and_not_in_an_answer(
    line: Wire,
) -> None:
    tree = {"k": "record", "t": [__name__, "Picky"], "v": {"size": {"k": "int", "v": -1}}}
    with pytest.raises(BadTree):
        line.decode(tree, dense=False)
    assert line.decode(tree).size == -1


def test_a_record_of_another_class_is_refused_in_an_input_and_only_its_fields_in_an_answer(
    line: Wire,
) -> None:
    tree = {"k": "record", "t": ["os", "system"], "v": {"size": {"k": "int", "v": 5}}}
    with pytest.raises(BadTree):
        line.decode(tree, dense=False)
    assert type(line.decode(tree)) is records.Fields
    assert line.decode(tree) == {"size": 5}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (torch.Size([1, 2]), (1, 2)),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(list, a=3), {"a": 3}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
    ],
    ids=["Size", "OrderedDict", "defaultdict", "Counter"],
)
def test_containers_of_derived_classes_arrive_as_plain_ones(line: Wire, value: Any, plain: Any) -> None:
    found = line.decode(Encoder().tree(value))
    assert (type(found), repr(found)) == (type(plain), repr(plain))


@pytest.mark.parametrize("dense", [False, True])
def test_an_object_of_a_plain_class_crosses_with_its_attributes(line: Wire, dense: bool) -> None:
    arrived = line.carry(Bag(3), dense=dense)
    assert type(arrived) is Bag
    assert arrived.size.tolist() == [0, 1, 2]
    assert arrived.names == ["a", "b"]


def test_an_object_of_a_plain_class_is_rebuilt_without_a_call_of_it(line: Wire) -> None:
    bag = Bag(3)
    del bag.size
    assert vars(line.carry(bag)) == {"names": ["a", "b"]}


def test_an_answer_cannot_replace_what_its_class_has(line: Wire) -> None:
    bag = Bag(3)
    bag.tolerance = 1e9
    assert line.carry(bag).tolerance == 1e9
    arrived = line.carry(bag, dense=True)
    assert type(arrived) is records.Fields
    assert arrived["tolerance"] == 1e9


@pytest.mark.parametrize("name", ["extra", "__class__", "__dict__", "name\x00"])
def test_a_record_gets_no_field_that_its_class_does_not_have(line: Wire, name: str) -> None:
    fields = {"values": {"k": "none"}, name: {"k": "dict", "v": []}}
    with pytest.raises(BadTree):
        line.decode({"k": "record", "t": [__name__, "Config"], "v": fields})


@pytest.mark.parametrize("table", [None, {}, "table", 5, [None], [[]], ["entry"], [5], [{}]], ids=repr)
def test_a_table_that_is_none_is_refused(line: Wire, table: Any) -> None:
    with pytest.raises(BadTree):
        Decoder(line.arena, table, find_record, dense=True)


def test_a_table_that_is_too_long_is_refused(line: Wire) -> None:
    table = [entry(shape=[0], strides=[1], nbytes=0)] * (wire.MAX_NODES + 1)
    with pytest.raises(BadTree):
        Decoder(line.arena, table, find_record, dense=True)


def test_a_tree_that_is_too_deep_or_too_large_is_refused(line: Wire) -> None:
    deep: dict[str, Any] = {"k": "none"}
    for _ in range(200):
        deep = {"k": "list", "v": [deep]}
    wide = {"k": "list", "v": [{"k": "none"}] * (wire.MAX_NODES + 1)}
    for tree in (deep, wide):
        with pytest.raises(BadTree):
            line.decode(tree)


def test_the_text_of_a_refusal_is_short(line: Wire) -> None:
    long = "x" * 1_000_000
    for tree in ({"k": long}, {"k": "record", "t": [__name__, "Derived"], "v": {long: 5}}):
        with pytest.raises(BadTree) as refusal:
            line.decode(tree)
        assert len(str(refusal.value)) < 1000


JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([-1, 0, 1, 4, 2**31, 2**40, 2**61, 2**62, 2**63, 2**64, 10**400]),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(
            [*decode.BUILDERS, *wire.DTYPES, "cpu", "cuda:0", "meta", __name__, "Pair", "Config"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path of every part of a JSON value."""
    yield here
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*here, key))


def replaced(value: Any, path: tuple[Any, ...], part: Any) -> Any:
    """Return a copy with the part at ``path`` replaced."""
    if not path:
        return part
    made = copy.copy(value)
    made[path[0]] = replaced(value[path[0]], path[1:], part)
    return made


def honest_message() -> dict[str, Any]:
    """Return the tree and table of a value with all kinds of nodes."""
    encoder = Encoder(guarded=True)
    value = [
        (torch.ones(2, 3), torch.empty(0, 2), torch.tensor(True)),
        {"a": 1, 2: 2.5, None: 1j},
        Pair(torch.float16, torch.device("cpu")),
        Config(Frozen("text")),
        Picky(1),
    ]
    return json.loads(json.dumps({"tree": encoder.tree(value), "table": encoder.table()}))  # type: ignore[no-any-return]


HONEST = honest_message()
MUTATIONS = st.lists(st.tuples(st.integers(0, 10**6), JUNK), min_size=1, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(400))
@given(MUTATIONS, st.booleans())
@example([(0, {"tree": {"k": "device", "v": "bogus"}, "table": []})], True)
def test_no_tree_makes_the_decoder_raise_anything_but_a_bad_tree(
    line: Wire, mutations: list[tuple[int, Any]], dense: bool
) -> None:
    message: Any = HONEST
    for place, junk in mutations:
        all_places = list(places(message))
        message = replaced(message, all_places[place % len(all_places)], junk)
    message = message if isinstance(message, dict) else {"tree": message, "table": []}
    try:
        decoder = Decoder(line.arena, message.get("table"), find_record, dense=dense)
        decoder.value(message.get("tree"))
    except BadTree:
        pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(400))
@given(
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(sorted(wire.DTYPES)),
            "shape": st.lists(st.sampled_from([0, 1, 2, 3, 255, 2**31, 2**61]), max_size=4),
            "strides": st.lists(st.sampled_from([0, 1, 2, 3, 255, 2**31, 2**61]), max_size=4),
            "offset": st.sampled_from([0, 1, 3, 256, 65535, 65536, 2**61]),
            "nbytes": st.sampled_from([0, 1, 2, 4, 8, 16, 256, 65536, 2**61]),
            "device": st.just("cpu"),
        }
    ),
    st.booleans(),
    st.booleans(),
)
def test_no_sizes_make_the_decoder_raise_anything_but_a_bad_tree(
    line: Wire, table_entry: dict[str, Any], dense: bool, consistent: bool
) -> None:
    if consistent:
        shape = table_entry["shape"]
        table_entry["strides"] = wire.dense_strides(shape)
        table_entry["nbytes"] = math.prod(shape) * wire.DTYPES[table_entry["dtype"]].itemsize
    try:
        value = line.decode(TENSOR, [table_entry], dense=dense)
    except BadTree:
        return
    assert list(value.shape) == table_entry["shape"]


# Shared memory


def test_what_was_read_is_a_private_copy(line: Wire) -> None:
    value = line.carry(torch.ones(3))
    line.arena.bytes.fill_(7)
    assert value.tolist() == [1.0, 1.0, 1.0]


def test_what_was_written_is_a_copy_too(line: Wire) -> None:
    value = torch.ones(3)
    encoder = Encoder(guarded=True)
    tree, table = encoder.tree(value), encoder.table()
    encoder.write(line.arena)
    value.fill_(5)
    assert line.decode(tree, table).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_the_size_of_shared_memory_can_be_changed_by_nobody(line: Wire, size: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(line.arena.fd, size)
    with pytest.raises(PermissionError):
        os.truncate(f"/proc/self/fd/{line.arena.fd}", size)


def test_an_arena_has_whole_pages_and_is_adopted_with_its_size() -> None:
    arena = Arena.create(5000)
    assert arena.size == 2 * mmap.PAGESIZE
    other = Arena.adopt(os.dup(arena.fd))
    assert other.size == arena.size
    other.bytes[4999] = 42
    assert arena.bytes[4999] == 42
    other.close()
    arena.close()


# Helpers


def test_the_size_of_a_value_is_what_its_contiguous_form_takes() -> None:
    assert wire.output_nbytes(torch.ones(2).expand(1000, 2)) == 8192 + 2 * wire.GUARD_BYTES
    with pytest.raises(CannotCarry, match="output"):
        wire.output_nbytes({1}, "output")


def test_finite_numbers_are_told_from_others() -> None:
    assert all(map(differences.is_finite_number, (1, 1.5, 10**400)))
    assert not any(map(differences.is_finite_number, (True, math.nan, math.inf, "1")))


def test_a_class_is_found_by_its_dotted_name() -> None:
    assert decode.importing_record_type(__name__, "Pair") is Pair
    with pytest.raises(BadTree):
        decode.importing_record_type(__name__, "INT64_MAX")
    assert __name__ in sys.modules


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"k": "int", "v": 1 << 9000}, "too long"),
        ({"k": "str", "v": "x" * (wire.MAX_TEXT + 1)}, "too long"),
        ({"k": "dict", "v": [[{"k": "tuple", "v": []}, {"k": "none"}]]}, "a key that is no scalar"),
        (
            functools.reduce(
                lambda node, _: {"k": "list", "v": [node]}, range(wire.MAX_DEPTH + 1), {"k": "none"}
            ),
            "too deep",
        ),
    ],
)
def test_no_answer_is_read_that_the_judge_could_not_send_on_to_its_checker(node: Any, text: str) -> None:
    arena = Arena.create(4096)
    try:
        with pytest.raises(BadTree, match=text):
            Decoder(arena, [], decode.importing_record_type, dense=True).value(node)
    finally:
        arena.close()


def test_an_input_and_an_answer_have_the_bounds_of_a_tree_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_NODES", 10)
    monkeypatch.setattr(decode, "MAX_NODES", 10)
    encoder, arena = Encoder(), Arena.create(4096)
    trees = [encoder.tree([1] * 9) for _ in range(2)]
    decoder = Decoder(arena, encoder.table(), decode.importing_record_type, dense=False)
    assert [decoder.value(tree) for tree in trees] == [[1] * 9] * 2
    arena.close()
    with pytest.raises(CannotCarry, match="more than 10 values"):
        encoder.tree([1] * 10)
