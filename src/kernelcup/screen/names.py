"""Resolve the names and the constant texts of expressions, without running anything.

Scopes and the order of statements are ignored: a name means everything that is ever bound to it. This sees
through aliases, and errs on the side of too many hints.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
from collections.abc import Iterable, Iterator

UNKNOWN = "?"
MAX_MEANINGS = 4
MAX_DEPTH = 40
MAX_DOTTED = 200
MAX_TEXT = 2_000_000
MAX_BUILT_CHARACTERS = 4_000_000
ROUNDS = 3
"""How many levels of aliases are followed."""

BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_")) | {"__import__"}
IMPORTERS = ("builtins.__import__", "importlib.import_module", "importlib.__import__")
NAMESPACES = ("builtins.globals()", "builtins.locals()", "builtins.vars()")
DECODINGS = {"fromhex": bytes.fromhex, "b64decode": base64.b64decode, "unhexlify": binascii.unhexlify}


class Names:
    """The meanings of the names in one syntax tree."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        """Read all imports and assignments. ``nodes`` has every parent before its children."""
        self._aliases: dict[str, tuple[str, ...]] = {}
        self._texts: dict[str, str] = {}
        self._dotted: dict[ast.AST, tuple[str, ...]] = {}
        self._folded: dict[ast.AST, str | None] = {}
        self._stars: list[str] = []
        self._built = 0
        for node in nodes:
            self._read_import(node)
        bindings = [pair for node in nodes for pair in _bindings(node)]
        for _ in range(ROUNDS):
            if not self._read_bindings(bindings):
                break
        self._forget()
        # Children first, so that the parts of each expression are already resolved.
        for node in reversed(nodes):
            if isinstance(node, ast.expr):
                self.dotted(node)
                self.text(node)

    def dotted(self, node: ast.AST, depth: int = 0) -> tuple[str, ...]:
        """Return the dotted names that an expression may refer to; empty if it is not a name."""
        if (known := self._dotted.get(node)) is not None:
            return known
        found = () if depth > MAX_DEPTH else tuple(self._meanings(node, depth + 1))[:MAX_MEANINGS]
        self._dotted[node] = found
        return found

    def text(self, node: ast.AST, depth: int = 0) -> str | None:
        """Return the constant string, or bytes as Latin-1, of an expression; None if it is not constant."""
        if node in self._folded:
            return self._folded[node]
        found = None if depth > MAX_DEPTH or self.exhausted else self._fold(node, depth + 1)
        if found is not None and not isinstance(node, ast.Constant):
            self._built += len(found)
        self._folded[node] = found
        return found

    @property
    def exhausted(self) -> bool:
        """Whether the text joins so much constant text that we stopped resolving it."""
        return self._built > MAX_BUILT_CHARACTERS

    def _read_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._bind(alias.asname or top, alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                if alias.name == "*":
                    self._stars.append(module)
                else:
                    self._bind(alias.asname or alias.name, f"{module}.{alias.name}")

    def _bind(self, name: str, dotted: str) -> bool:
        there = self._aliases.get(name, ())
        if dotted in there or len(there) >= MAX_MEANINGS or dotted.startswith(UNKNOWN):
            return False
        self._aliases[name] = (*there, dotted)
        return True

    def _read_bindings(self, bindings: list[tuple[str, ast.expr]]) -> bool:
        self._forget()
        changed = False
        for name, value in bindings:
            for dotted in self.dotted(value):
                changed |= self._bind(name, dotted)
            text = self.text(value)
            if text is not None and name not in self._texts:
                self._texts[name] = text
                changed = True
        return changed

    def _forget(self) -> None:
        self._dotted.clear()
        self._folded.clear()
        self._built = 0

    def _meanings(self, node: ast.AST, depth: int) -> Iterator[str]:
        if isinstance(node, ast.Name):
            yield from self._of_name(node.id)
        elif isinstance(node, ast.Attribute):
            yield from _joined(self.dotted(node.value, depth), node.attr)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node, depth)
        elif isinstance(node, ast.Subscript):
            yield from self._of_item(node, depth)

    def _of_name(self, name: str) -> Iterator[str]:
        if name == "__builtins__":
            yield "builtins"
        elif name in self._aliases:
            yield from self._aliases[name]
        elif name in BUILTINS:
            yield f"builtins.{name}"
        else:
            yield from (f"{module}.{name}" for module in self._stars)

    def _of_call(self, node: ast.Call, depth: int) -> Iterator[str]:
        """Follow calls that are another way to write a name."""
        for name in self.dotted(node.func, depth):
            if name in IMPORTERS and node.args:
                if (module := self.text(node.args[0], depth)) is not None:
                    # __import__("a.b") is a, import_module("a.b") is a.b
                    yield module.partition(".")[0] if "__import__" in name else module
            elif name == "builtins.getattr" and len(node.args) >= 2:
                if (last := self.text(node.args[1], depth)) is not None:
                    yield from _joined(self.dotted(node.args[0], depth), last)
            elif name == "builtins.vars" and node.args:
                yield from _joined(self.dotted(node.args[0], depth), "__dict__")
            elif name in ("builtins.globals", "builtins.locals", "builtins.vars"):
                yield f"{name}()"

    def _of_item(self, node: ast.Subscript, depth: int) -> Iterator[str]:
        """Follow ``sys.modules["os"]``, ``os.__dict__["system"]`` and ``globals()["eval"]``."""
        key = self.text(node.slice, depth)
        if key is None:
            return
        for owner in self.dotted(node.value, depth):
            if owner == "sys.modules":
                yield key
            elif owner.endswith(".__dict__"):
                yield from _joined((owner.removesuffix(".__dict__"),), key)
            elif owner == "builtins":
                yield f"builtins.{key}"
            elif owner in NAMESPACES:
                yield from self._of_name(key)

    def _fold(self, node: ast.AST, depth: int) -> str | None:
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, ast.Name):
            return self._texts.get(node.id)
        if isinstance(node, ast.FormattedValue):
            return self.text(node.value, depth)
        if isinstance(node, ast.JoinedStr):
            return self._together(node.values, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._together((node.left, node.right), depth)
        if isinstance(node, ast.Subscript):
            return self._reversed(node, depth)
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        return None

    def _together(self, parts: Iterable[ast.expr], depth: int, between: str = "") -> str | None:
        texts = []
        for part in parts:
            if (text := self.text(part, depth)) is None:
                return None
            texts.append(text)
        whole = between.join(texts)
        return whole if len(whole) <= MAX_TEXT else None

    def _reversed(self, node: ast.Subscript, depth: int) -> str | None:
        cut = node.slice
        backwards = isinstance(cut, ast.Slice) and cut.lower is None and cut.upper is None
        if not backwards or not isinstance(cut, ast.Slice) or cut.step is None:
            return None
        step = cut.step
        is_minus_one = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        text = self.text(node.value, depth) if is_minus_one else None
        return None if text is None else text[::-1]

    def _called(self, node: ast.Call, depth: int) -> str | None:
        function = node.func
        first = node.args[0] if node.args else None
        if isinstance(function, ast.Name):
            return self._built_in(function.id, first, depth)
        if not isinstance(function, ast.Attribute):
            return None
        if function.attr in DECODINGS and first is not None:
            return _decoded(function.attr, self.text(first, depth))
        base = self.text(function.value, depth)
        if base is None:
            return None
        if function.attr == "join" and isinstance(first, ast.List | ast.Tuple):
            return self._together(first.elts, depth, base)
        if function.attr in ("decode", "encode", "strip"):
            return base
        if function.attr in ("lower", "upper") and not node.args:
            return base.lower() if function.attr == "lower" else base.upper()
        if function.attr == "replace" and len(node.args) == 2:
            return self._replaced(base, node.args, depth)
        return None

    def _built_in(self, name: str, first: ast.expr | None, depth: int) -> str | None:
        if name == "chr" and isinstance(first, ast.Constant) and isinstance(first.value, int):
            return chr(first.value) if 0 <= first.value < 0x110000 else None
        if name in ("str", "bytes") and first is not None:
            if isinstance(first, ast.List | ast.Tuple) and name == "bytes":
                return _from_numbers(first.elts)
            return self.text(first, depth) if isinstance(first, ast.expr) else None
        return _decoded(name, self.text(first, depth)) if name in DECODINGS and first is not None else None

    def _replaced(self, base: str, args: list[ast.expr], depth: int) -> str | None:
        old, new = (self.text(argument, depth) for argument in args)
        if old is None or new is None or len(base) * (len(new) + 1) > MAX_TEXT:
            return None
        return base.replace(old, new)


def _joined(owners: tuple[str, ...], last: str) -> Iterator[str]:
    for owner in owners or (UNKNOWN,):
        longer = f"{owner}.{last}"
        yield longer if len(longer) <= MAX_DOTTED else f"{UNKNOWN}.{last[:MAX_DOTTED]}"


def _constant(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return value.decode("latin-1") if isinstance(value, bytes) else None


def _decoded(how: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return DECODINGS[how](text).decode("latin-1")
    except ValueError:  # binascii.Error is one
        return None


def _from_numbers(elements: list[ast.expr]) -> str | None:
    numbers = [each.value for each in elements if isinstance(each, ast.Constant)]
    codes = [number for number in numbers if isinstance(number, int) and 0 <= number < 256]
    return bytes(codes).decode("latin-1") if len(codes) == len(elements) else None


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement or expression binds, with their values."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _pairs(node.target, node.value)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _pairs(node.optional_vars, node.context_expr)
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        defaults = zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)
        named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        for argument, value in (*defaults, *named):
            if value is not None:
                yield argument.arg, value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for part, its_value in zip(target.elts, value.elts, strict=False):
            if isinstance(part, ast.Name):
                yield part.id, its_value
