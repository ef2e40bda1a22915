"""Screen a syntax tree, node by node."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelcup.screen import cpp, plain_text, rules
from kernelcup.screen.findings import Lines, Spot, Tag
from kernelcup.screen.identities import Identities
from kernelcup.screen.names import IMPORTERS, UNKNOWN, Names
from kernelcup.screen.rules import Rule

MANY_NUMBERS = 64
LONG_BLOB = 256
SHORT_TEXT = 200
SUSPECT_WORDS = ("/proc/", "/dev/shm", "/dev/mem", "LD_PRELOAD", "LD_AUDIT", "POPCORN_", "KERNELCUP_")
WRITING_MODES = frozenset("wax+")
OPENERS = ("builtins.open", "io.open", "codecs.open", "gzip.open")
SETTERS = ("builtins.setattr", "builtins.delattr", "builtins.object.__setattr__", "builtins.type.__setattr__")
DOTTED_CLOCKS = (
    "torch.cuda.Event",
    "torch.cuda.synchronize",
    "torch.Event",
    "time.perf_counter",
    "time.time",
)

LOOKUP = Rule(Tag.POINTER_REPLAY, "Looks something up by an address or an identity.")


class Tree:
    """One syntax tree with the meanings of its names."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._names = Names(self._nodes)
        self._inside: set[ast.AST] = set()
        """Parts of a larger constant text or key, which is examined as a whole."""
        self._called: set[ast.AST] = set()
        self._owners: set[ast.AST] = set()
        """The `a` of `a.b`: the whole name says more than its beginning."""
        self._identities = Identities(self._names)
        self._decoding: set[ast.AST] = set()
        """Nodes that contain decoding of data."""
        self._executed_texts: set[str] = set()
        self._long_texts: set[str] = set()

    def spots(self) -> Iterator[Spot]:
        """Yield all findings of the rules."""
        self._prepare()
        for node in self._nodes:
            if isinstance(node, ast.stmt):
                yield from self._statement(node)
            elif isinstance(node, ast.expr):
                yield from self._expression(node)
                yield from self._text(node)
                if self._identities.are_looked_up(node):
                    yield from _found(node, LOOKUP)
        if self._names.exhausted:
            text = "Makes more text of pieces than is put together here."
            yield Spot(1, 0, Tag.UNPARSABLE, text)

    def _prepare(self) -> None:
        for node in self._nodes:
            if isinstance(node, ast.Call):
                self._called.add(node.func)
            elif isinstance(node, ast.Attribute):
                self._owners.add(node.value)
            if isinstance(node, ast.expr) and self._names.text(node) is not None:
                self._inside.update(ast.iter_child_nodes(node))
        # Children first, so that nested calls are not walked once for each level.
        for node in reversed(self._nodes):
            if self._names_decoder(node) or any(
                child in self._decoding for child in ast.iter_child_nodes(node)
            ):
                self._decoding.add(node)
        # Bindings of bindings: `key = x.data_ptr()`, `both = (key, n)`.
        for _ in range(2):
            for node in self._nodes:
                if isinstance(node, ast.Assign):
                    self._identities.read(node)

    def _names_decoder(self, node: ast.AST) -> bool:
        return isinstance(node, ast.expr) and any(
            name.startswith(rules.DECODERS) for name in self._names.dotted(node)
        )

    def _statement(self, node: ast.stmt) -> Iterator[Spot]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _found(node, plain_text.of_module(alias.name))
        elif isinstance(node, ast.ImportFrom):
            yield from self._import_from(node)
        elif isinstance(node, ast.ClassDef):
            for base in node.bases:
                yield from _found(node, self._of_base(base))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            rule = rules.ATTRIBUTES.get(node.name)
            if rule is not None and rule.tag in (Tag.TENSOR_SUBCLASS, Tag.DYNAMIC_EXECUTION):
                yield from _found(node, rule)
            if node.name == "elapsed_time":
                yield from _found(node, Rule(Tag.TIMER_PATCH, "Defines a timer's method of its own."))

    def _import_from(self, node: ast.ImportFrom) -> Iterator[Spot]:
        module = node.module or ""
        for alias in node.names:
            name = module if alias.name == "*" else f"{module}.{alias.name}"
            yield from _found(node, rules.BUILTINS_IMPORT if module == "builtins" else rules.find(name))

    def _of_base(self, base: ast.expr) -> Rule | None:
        for name in self._names.dotted(base):
            last = name.rpartition(".")[2]
            if last in ("Tensor", "Parameter"):
                return Rule(Tag.TENSOR_SUBCLASS, "Derives a class from Tensor.")
            if last == "Event" and not name.startswith("threading"):
                return Rule(Tag.TIMER_PATCH, "Derives a class from a timer's.")
        return None

    def _expression(self, node: ast.expr) -> Iterator[Spot]:
        names = self._names.dotted(node)
        stored = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        for name in names:
            if stored and not isinstance(node, ast.Name):
                yield from _found(node, rules.of_store(name))
            if not (stored and isinstance(node, ast.Name)) and node not in self._owners:
                yield from _found(node, self._of_name(name, node))
        if isinstance(node, ast.Attribute):
            yield from self._attribute(node, names)
        elif isinstance(node, ast.Call):
            yield from self._call(node)

    def _of_name(self, name: str, node: ast.expr) -> Rule | None:
        if name in IMPORTERS and name != "builtins.__import__" and node not in self._called:
            return Rule(Tag.DYNAMIC_EXECUTION, "Hands on the function that imports by name.")
        if isinstance(node, ast.Subscript | ast.Call) and name == "builtins":
            return rules.BUILTINS_IMPORT
        return rules.find(name)

    def _attribute(self, node: ast.Attribute, names: tuple[str, ...]) -> Iterator[Spot]:
        rule = rules.ATTRIBUTES.get(node.attr)
        told = {known.tag for name in names if (known := rules.find(name)) is not None}
        if rule is not None and rule.tag not in told:
            yield from _found(node, rule)
        if node.attr == "__dict__":
            for name in names:
                # Entries of a module's or class's dictionary can be set through it.
                yield from _found(node, rules.of_store(name))

    def _call(self, node: ast.Call) -> Iterator[Spot]:
        for name in self._names.dotted(node.func):
            if name in SETTERS:
                yield from self._setter(node)
            elif name in OPENERS:
                yield from self._open(node, 1)
            elif name in ("builtins.exec", "builtins.eval", "builtins.compile"):
                yield from self._executed(node)
            elif name == "builtins.getattr" and len(node.args) >= 2:
                yield from self._getter(node.args[1], node)
            elif name == "builtins.vars" and node.args:
                yield from self._variables(node)
            else:
                yield from _found(node, self._of_arguments(name, node))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "open":
            yield from self._open(node, 0)

    def _of_arguments(self, name: str, node: ast.Call) -> Rule | None:
        """Return the rule for a function that is worth reviewing only with some arguments."""
        if name in IMPORTERS and (not node.args or self._names.text(node.args[0]) is None):
            return Rule(Tag.DYNAMIC_EXECUTION, "Imports a module of a computed name.")
        if name == "builtins.bytes" and _many_numbers(node):
            return Rule(Tag.OBFUSCATION, "Makes text or code of a list of numbers.")
        if name.startswith(("ctypes.CDLL", "ctypes.PyDLL")) and _is_own_process(node):
            return Rule(Tag.PROCESS_MEMORY, "Opens the process itself as a library.")
        return None

    def _setter(self, node: ast.Call) -> Iterator[Spot]:
        if len(node.args) < 2:
            return
        owners = self._names.dotted(node.args[0]) or (UNKNOWN,)
        last = self._names.text(node.args[1])
        for owner in owners:
            if last is not None or owner != UNKNOWN:
                yield from _found(node, rules.of_store(f"{owner}.{last or UNKNOWN}"))
            elif not (isinstance(node.args[0], ast.Name) and node.args[0].id == "self"):
                text = "Sets an attribute whose name the text does not show."
                yield from _found(node, Rule(Tag.OBFUSCATION, text))
        yield from self._getter(node.args[1], node)

    def _getter(self, name: ast.expr, node: ast.Call) -> Iterator[Spot]:
        """Yield findings for an attribute's name: look up a plain one; a composed one is a finding in itself."""
        text = self._names.text(name)
        if text is not None:
            yield from _found(node, rules.ATTRIBUTES.get(text))
        plain = isinstance(name, ast.Constant | ast.Name | ast.Attribute | ast.Subscript)
        if not plain or (isinstance(name, ast.Subscript) and text is not None):
            yield from _found(
                node, Rule(Tag.OBFUSCATION, "Puts the name of an attribute together from pieces.")
            )

    def _variables(self, node: ast.Call) -> Iterator[Spot]:
        for name in self._names.dotted(node.args[0]):
            yield from _found(node, rules.of_store(f"{name}.__dict__"))

    def _open(self, node: ast.Call, position: int) -> Iterator[Spot]:
        given = [each.value for each in node.keywords if each.arg == "mode"]
        if len(node.args) > position:
            given.append(node.args[position])
        for mode in given:
            text = self._names.text(mode)
            unknown = text is None and position == 1
            if unknown or (text is not None and len(text) <= 4 and WRITING_MODES & set(text)):
                yield from _found(node, Rule(Tag.FILES, "Opens a file for writing."))

    def _executed(self, node: ast.Call) -> Iterator[Spot]:
        if not node.args:
            return
        text = self._names.text(node.args[0])
        if node.args[0] in self._decoding:
            yield from _found(node, Rule(Tag.OBFUSCATION, "Runs code that is decoded first."))
        if text is not None and text not in self._executed_texts:
            self._executed_texts.add(text)
            for spot in plain_text.bare(Lines(text)):
                yield Spot(node.lineno, node.col_offset, spot.tag, spot.explanation, in_bytes=True)

    def _text(self, node: ast.expr) -> Iterator[Spot]:
        text = self._names.text(node)
        if text is None or node in self._inside or isinstance(node, ast.Name) or self._was_seen(text):
            return
        if len(text) <= SHORT_TEXT and (rule := _of_string(text)) is not None:
            yield from _found(node, rule)
        for word in SUSPECT_WORDS:
            if word in text:
                tag = Tag.HARNESS_ACCESS if word.endswith("_") else Tag.PROCESS_MEMORY
                yield from _found(node, Rule(tag, f"Has {word} in a string."))
        if not isinstance(node, ast.Constant) and plain_text.BLOB.search(text):
            yield from _found(node, Rule(Tag.OBFUSCATION, "Has a long piece of encoded data."))
        if (
            len(text) > LONG_BLOB
            and sum(not each.isprintable() for each in text[:4096]) > len(text[:4096]) // 4
        ):
            yield from _found(node, Rule(Tag.OBFUSCATION, "Has a long piece of binary data."))
        if cpp.LOOKS_NATIVE.search(text):
            for spot in cpp.scan(text):
                # An approximation: a string with escaped line breaks is on one line.
                yield spot._replace(line=min(node.lineno + spot.line - 1, node.end_lineno or node.lineno))

    def _was_seen(self, text: str) -> bool:
        """Return whether a long text was examined before, since it may occur in thousands of places."""
        seen = text in self._long_texts
        if len(text) > SHORT_TEXT:
            self._long_texts.add(text)
        return seen


def _of_string(text: str) -> Rule | None:
    if any(text.startswith(clock) for clock in DOTTED_CLOCKS):
        return Rule(Tag.TIMER_PATCH, "Names a timer in a string.")
    return rules.IN_STRINGS.get(text.rpartition(".")[2])


def _many_numbers(node: ast.Call) -> bool:
    return (
        bool(node.args)
        and isinstance(node.args[0], ast.List | ast.Tuple)
        and len(node.args[0].elts) >= MANY_NUMBERS
    )


def _is_own_process(node: ast.Call) -> bool:
    return not node.args or (isinstance(node.args[0], ast.Constant) and node.args[0].value is None)


def _found(node: ast.stmt | ast.expr, rule: Rule | None) -> Iterator[Spot]:
    if rule is not None:
        yield Spot(node.lineno, node.col_offset, rule.tag, rule.explanation, in_bytes=True)
