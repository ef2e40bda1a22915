"""Read YAML 1.2 into plain values and remember the position of each.

The node tree is walked here instead of being constructed by ruamel: so all duplicate keys and invalid scalars
are found at once, tags cannot build objects, and aliases cannot grow without bound.
"""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from kernelcup.tasks.manifest.size_limits import INT_RANGE, MAX_YAML_BYTES, MAX_YAML_DEPTH, MAX_YAML_NODES

Path = tuple[str | int, ...]
Position = tuple[int, int]
"""Line and column, both from 1."""

TAG = "tag:yaml.org,2002:"
# Times and dates are plain texts in YAML 1.2; callers interpret them.
TEXT_TAGS = (f"{TAG}str", f"{TAG}timestamp")
FACTOR = r"\d[\d_]{0,19}(?:\s*\*\*\s*\d{1,2})?"
PRODUCT = re.compile(rf"(?=.*\*){FACTOR}(?:\s*\*\s*{FACTOR}){{0,15}}")
"""Powers and products of whole numbers, such as ``2**20`` and ``3*1024``, which YAML takes for texts."""
# ruamel raises these for odd input, in addition to its own errors.
READ_FAILURES = (
    YAMLError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Flaw:
    """One problem of the text itself."""

    position: Position
    text: str
    path: Path = ()


@dataclass(slots=True)
class Document:
    """A YAML text as plain values, with the position of each value and each key."""

    value: Any = None
    values: dict[Path, Position] = field(default_factory=dict)
    keys: dict[Path, Position] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    """Paths of replaced values, whose own flaw is already reported."""

    def position(self, path: Path) -> Position:
        """Return the position of the value at ``path``, or of its nearest existing ancestor."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (1, 1))

    def key_position(self, path: Path) -> Position:
        """Return the position of the key at ``path``, else the one where its value would be."""
        return self.keys.get(path) or self.position(path)


def read_yaml(content: bytes) -> Document:
    """Parse ``content``; its problems are added to ``flaws`` and never raised."""
    document = Document()
    if len(content) > MAX_YAML_BYTES:
        document.flaws.append(Flaw((1, 1), f"is larger than {MAX_YAML_BYTES >> 10} KiB"))
        return document
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        document.flaws.append(Flaw(*undecodable(content, error)))
        return document
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ruamel's advice on style, for example about reused anchors
        _parse(text, document)
    return document


def undecodable(content: bytes, error: UnicodeDecodeError) -> tuple[Position, str]:
    """Return the position and the description of the first byte that is not UTF-8."""
    before = content[: error.start]
    line_start = before.rfind(b"\n") + 1
    place = (before.count(b"\n") + 1, error.start - line_start + 1)
    return place, f"is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}"


class _Counted(Composer):
    """Stops at the first value too many: composing one takes 20 µs."""

    nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        if self.nodes > MAX_YAML_NODES:
            where = self.parser.peek_event().start_mark
            raise ComposerError(None, None, f"has more than {MAX_YAML_NODES:,} values", where)
        return super().compose_node(parent, index)


def _parse(text: str, document: Document) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer, yaml.max_depth = _Counted, 2 * MAX_YAML_DEPTH
    try:
        root = yaml.compose(text)
    except READ_FAILURES as error:
        document.flaws.append(_syntax_flaw(text, error))
        return
    if root is not None:
        document.value = _Walk(document).convert(root, (), 0)


def _syntax_flaw(text: str, error: BaseException) -> Flaw:
    if isinstance(error, RecursionError | MaxDepthExceededError):
        return Flaw((1, 1), "is nested too deeply")
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        what = error.problem or error.context or "cannot be read"
        return Flaw((mark.line + 1, mark.column + 1), f"is not YAML: {' '.join(str(what).split())}")
    if isinstance(error, ReaderError):
        before = text[: error.position]
        place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
        return Flaw(place, "is not YAML: a control character; only printable text is allowed")
    return Flaw((1, 1), "is not YAML: it cannot be read")


class _Walk:
    """Converts nodes into values, and counts them to limit the growth by aliases."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.nodes = 0
        self.constructor = YAML(typ="safe", pure=True).constructor

    def convert(self, node: Node, path: Path, depth: int) -> Any:
        self.document.values[path] = _start(node)
        self.nodes += 1
        if self.nodes > MAX_YAML_NODES:
            if self.nodes == MAX_YAML_NODES + 1:
                self.spoil(node, path, f"has more than {MAX_YAML_NODES:,} values")
            return None
        if depth > MAX_YAML_DEPTH:
            return self.spoil(node, path, f"is nested more than {MAX_YAML_DEPTH} levels deep")
        if isinstance(node, MappingNode) and node.tag == f"{TAG}map":
            return self.mapping(node, path, depth)
        if isinstance(node, SequenceNode) and node.tag == f"{TAG}seq":
            return [self.convert(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self.scalar(node, path)
        return self.spoil(node, path, f"has the tag {str(node.tag)!r}; tags are not allowed")

    def mapping(self, node: MappingNode, path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node, path)
            if key is None:
                continue
            if key in result:
                first = self.document.keys[(*path, key)][0]
                self.flaw(key_node, (*path, key), f"duplicate key; it is on line {first} already")
                continue
            self.document.keys[(*path, key)] = _start(key_node)
            result[key] = self.convert(value_node, (*path, key), depth + 1)
        return result

    def key(self, node: Node, path: Path) -> str | None:
        if node.tag == f"{TAG}merge":
            self.flaw(node, path, "merge keys (`<<`) are not part of YAML 1.2; write the values out")
            return None
        if node.tag in TEXT_TAGS and _is_storable(node.value):
            return str(node.value)
        self.flaw(node, path, "a key must be text; quote it")
        return None

    def scalar(self, node: ScalarNode, path: Path) -> Any:
        if node.tag in TEXT_TAGS:
            if node.style is None and PRODUCT.fullmatch(node.value):
                return self.in_range(_product(node.value), node, path)
            if _is_storable(node.value):
                return str(node.value)
            self.spoil(node, path, "holds a character that is not allowed (NUL or half of a surrogate pair)")
            return ""
        if node.tag not in [f"{TAG}{kind}" for kind in ("null", "bool", "int", "float")]:
            return self.spoil(node, path, f"has the tag {str(node.tag)!r}; tags are not allowed")
        return self.number(node, path)

    def number(self, node: ScalarNode, path: Path) -> Any:
        # 640 digits are far beyond any range, and the time of int() grows with the square of their number.
        try:
            value = self.constructor.construct_object(node) if len(node.value) <= 640 else INT_RANGE.stop
        except READ_FAILURES:
            return self.spoil(node, path, f"is no {str(node.tag).removeprefix(TAG)}")
        return self.in_range(value, node, path)

    def in_range(self, value: Any, node: ScalarNode, path: Path) -> Any:
        if isinstance(value, int) and value not in INT_RANGE:
            self.spoil(node, path, "does not fit into 64 bits; whole numbers go from -2**63 to 2**63 - 1")
            return 1
        return value

    def spoil(self, node: Node, path: Path, text: str) -> None:
        self.document.broken.add(path)
        self.flaw(node, path, text)

    def flaw(self, node: Node, path: Path, text: str) -> None:
        self.document.flaws.append(Flaw(_start(node), text, path))


def _start(node: Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _product(text: str) -> int:
    """Return the value of a :data:`PRODUCT`."""
    factors = text.replace("_", "").replace("**", "^").split("*")
    powers = [[int(number) for number in factor.split("^")] for factor in factors]
    return math.prod(base ** (exponent[0] if exponent else 1) for base, *exponent in powers)


def _is_storable(text: str) -> bool:
    """Return whether a text can be stored: PostgreSQL accepts no NUL, UTF-8 no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
