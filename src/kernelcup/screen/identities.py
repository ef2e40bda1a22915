"""Addresses and identities of objects, and what a program looks up by them."""

from __future__ import annotations

import ast

from kernelcup.screen.names import Names

KEYED_METHODS = ("get", "setdefault", "pop", "__getitem__", "__setitem__")


class Identities:
    """The variables and expressions of a program that hold an address or an identity."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._whole: set[str] = set()
        """Variables that hold an address or an identity."""
        self._parts: set[str] = set()
        """Variables that hold an address or an identity, or a part of one."""

    def read(self, node: ast.Assign) -> None:
        """Take note of an assignment."""
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        if names and self._is_identity(node.value):
            self._whole.update(names)
        if names and self._has_identity(node.value):
            self._parts.update(names)

    def are_looked_up(self, node: ast.expr) -> bool:
        """Return whether an expression looks something up by an address or an identity."""
        if isinstance(node, ast.Subscript):
            return self._has_identity(node.slice)
        if isinstance(node, ast.Dict):
            return any(key is not None and self._has_identity(key) for key in node.keys)
        if isinstance(node, ast.Compare):
            return self._is_compared(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            return node.func.attr in KEYED_METHODS and self._has_identity(node.args[0])
        return False

    def _is_compared(self, node: ast.Compare) -> bool:
        if any(isinstance(each, ast.In | ast.NotIn) for each in node.ops):
            return self._has_identity(node.left)
        # Not for parts of an address: checking its alignment is usual.
        return any(self._is_identity(part) for part in (node.left, *node.comparators))

    def _has_identity(self, node: ast.expr) -> bool:
        """Return whether a key contains an address or an identity, or a part of one."""
        parts = list(node.elts) if isinstance(node, ast.Tuple) else [node]
        for part in parts:
            inner = part.left if isinstance(part, ast.BinOp) else part
            if self._is_identity(inner) or (isinstance(inner, ast.Name) and inner.id in self._parts):
                return True
        return False

    def _is_identity(self, node: ast.expr) -> bool:
        parts: list[ast.expr] = list(node.elts) if isinstance(node, ast.Tuple) else [node]
        return any(self._is_one_identity(part) for part in parts)

    def _is_one_identity(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._whole
        if isinstance(node, ast.JoinedStr):
            return any(
                isinstance(part, ast.FormattedValue) and self._is_one_identity(part.value)
                for part in node.values
            )
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr == "data_ptr":
            return True
        return any(name in ("builtins.id", "torch.Tensor.data_ptr") for name in self._names.dotted(node.func))
