"""The task's code inside the judge: generator, reference and checker. Their failures are the task's faults."""

from __future__ import annotations

import importlib
import inspect
import os
import random
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from kernelcup_harness.core.uses import LightMode, Uses, memory_of, tensors_of, unseen_by_dynamo
from kernelcup_harness.protocol.base import Parameters
from kernelcup_harness.protocol.enums import CheckStyle
from kernelcup_harness.wire import aliasing, decode, guards, values

UNFILLED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
"""Operations whose result keeps the earlier contents of its memory."""


class Emptied(LightMode):
    """A mode in which torch's uninitialized tensors are filled with zeros and remembered."""

    def __init__(self) -> None:
        super().__init__()
        # The tensors are kept, so that no later one gets the same memory.
        self._made: dict[int, torch.Tensor] = {}

    @unseen_by_dynamo
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; clear an uninitialized result, and forget tensors that it writes to."""
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        before = args[0].untyped_storage().nbytes() if name == "resize_" else 0
        made = func(*args, **(kwargs or {}))
        for writes, tensor in tensors_of(func, args, kwargs or {}):
            if writes:
                self._made.pop(memory_of(tensor), None)
        if name == "resize_":
            made.untyped_storage()[before:].fill_(0)
        elif name in UNFILLED and has_memory(made):
            values.bytes_of(made).zero_()
            self._made[memory_of(made)] = made
        return made

    def left(self, value: Any) -> list[int]:
        """Return the numbers of a value's tensors that were never written."""
        leaves = enumerate(aliasing.leaves(value))
        return [number for number, leaf in leaves if memory_of(leaf) in self._made and is_blank(leaf)]


def has_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is dense and has elements."""
    return tensor.layout is torch.strided and not tensor.is_meta and tensor.numel() > 0


def is_blank(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is contiguous in memory and all zeros."""
    dense = tensor.numel() > 0 and values.span_of(tensor) == tensor.numel()
    return dense and not bool(values.bytes_of(tensor).any())


def fill_with_noise(tensor: torch.Tensor, chance: random.Random) -> None:
    """Overwrite a tensor, and the memory between its elements, with noise of its dtype.

    Integers become 0 and 1: larger ones, used as indices by a kernel, might crash the judge's context.
    """
    if not values.span_of(tensor):
        return
    generator = torch.Generator().manual_seed(chance.getrandbits(63))
    if tensor.is_floating_point() or tensor.is_complex():
        pattern = torch.randint(0, 256, (guards.POISON_BYTES,), dtype=torch.uint8, generator=generator)
    else:
        count = guards.POISON_BYTES // tensor.element_size()
        bits = torch.randint(0, 2, (count, 1), dtype=torch.uint8, generator=generator)
        pattern = torch.nn.functional.pad(bits, (0, tensor.element_size() - 1)).reshape(-1)
    guards.repeat(values.bytes_of(tensor), pattern.to(tensor.device))


MAX_TEXT = 4000
NOT_LISTED = "\nOnly files that the task.yml lists are there: those with data belong into `data`."


class TaskFault(Exception):
    """The task's own code failed: the submission is not to blame."""


class TaskCode:
    """``generate_input``, ``ref_kernel`` and ``check_implementation`` of one task.

    Everything raised by them becomes :class:`TaskFault`.

    Args:
        module_name: The file of these functions, or its module.
        style: How the checker is called.
        folder: Has the task's files.
        load: Returns what has the functions.
        lacks: Returns what a failed reference lacks on this machine, from its error and its text; empty for nothing.
        salted: Mixes a salt into what generators of random numbers are seeded with, in its context.
    """

    def __init__(
        self,
        module_name: str,
        style: CheckStyle,
        folder: Path,
        *,
        load: Callable[[str], Any] = importlib.import_module,
        lacks: Callable[[str, str], str] = lambda _error, _text: "",
        salted: Callable[[int], AbstractContextManager[None]] = lambda _salt: nullcontext(),
    ) -> None:
        self._name = module_name if PurePosixPath(module_name).suffix else f"{module_name}.py"
        self._folder = folder
        self._style = style
        self._lacks, self._salted = lacks, salted
        what = self._name if self._name == module_name else f"import of {self._name}"
        self._module = self._guard(what, lambda: load(module_name))
        self._generate = self._function("generate_input")
        self._check = self._function("check_implementation")
        self._reference: Callable[[Any], Any] | None = getattr(self._module, "ref_kernel", None)
        self.in_place = False
        """Whether the reference answers by writing into its input; known after its first call."""
        self._written_only: dict[tuple[str, int], bool] = {}
        self._names = list(inspect.signature(self._generate).parameters)
        if style is CheckStyle.OUTPUT_REFERENCE and self._reference is None:
            raise TaskFault(f"{self._name} defines no function ref_kernel")

    @property
    def takes_seed(self) -> bool:
        """Whether the generator takes a seed, rather than relying on the global generators alone."""
        return "seed" in self._names

    @property
    def has_reference(self) -> bool:
        """Whether the task has a reference kernel beside its checker."""
        return self._reference is not None

    @property
    def tolerance(self) -> tuple[float, float] | None:
        """The checker's ``(rtol, atol)`` if it names them, as KernelCup's does."""
        relative, absolute = getattr(self._check, "rtol", None), getattr(self._check, "atol", None)
        if isinstance(relative, (int, float)) and isinstance(absolute, (int, float)):
            return float(relative), float(absolute)
        return None

    def generate(self, parameters: Parameters, seed: int, salt: int = 0) -> Any:
        """Return a fresh input. The seed also feeds the global generators, for tasks that use them.

        Memory that the generator leaves unwritten holds noise if the reference only writes to it, else zeros.
        """
        data, left = self._generated(parameters, seed, salt)
        for number in left:
            if self._only_writes(parameters, seed, number):
                fill_with_noise(aliasing.leaves(data)[number], random.Random(f"{seed} {number}"))
        return data

    def _generated(self, parameters: Parameters, seed: int, salt: int = 0) -> tuple[Any, list[int]]:
        """Return an input with zeros in unwritten memory, and the numbers of the unwritten tensors."""
        arguments = dict(parameters)
        if "seed" in self._names:
            arguments["seed"] = seed
        with self._salted(salt), Emptied() as emptied:
            self._guard("seed", lambda: seed_everything(seed, salt))
            data = self._guard("generate_input", lambda: self._generate(**arguments))
            left = emptied.left(data)
        return data, left

    def _only_writes(self, parameters: Parameters, seed: int, number: int) -> bool:
        """Return whether the reference's answer does not depend on the contents of a tensor of the input."""
        if self._reference is None:
            return False
        key = repr(sorted(parameters.items(), key=str)), number
        if key not in self._written_only:
            self._written_only[key] = self._is_same_with_noise(parameters, seed, number)
        return self._written_only[key]

    def _is_same_with_noise(self, parameters: Parameters, seed: int, number: int) -> bool:
        plain = self._generated(parameters, seed)[0]
        used = Uses(aliasing.leaves(plain))
        try:
            with used:
                self.expected(plain)
        except TaskFault:
            return False
        return number not in used.read and self.ignores(lambda: self._generated(parameters, seed)[0], number)

    def ignores(
        self, make: Callable[[], Any], number: int, check: Callable[[Any, Any], str] | None = None
    ) -> bool:
        """Return whether noise in a tensor of the input that ``make`` returns leaves the reference's answer right.

        ``check`` runs the checker, in this process unless given: it may not survive an answer that is made of noise.
        """
        noisy = make()
        fill_with_noise(aliasing.leaves(noisy)[number], random.Random(number))
        try:
            return not (check or self.check)(make(), self.expected(noisy))
        except TaskFault:
            return False

    def expected(self, data: Any) -> Any:
        """Return the reference's output for ``data``, which it may overwrite.

        A reference that returns None works in place: its output is the input afterwards.
        """
        assert self._reference is not None
        reference = self._reference
        value = self._guard("ref_kernel", lambda: reference(data))
        self.in_place = value is None
        return data if value is None else value

    def check(self, data: Any, output: Any) -> str:
        """Return the fault of ``output``, empty if there is none. Do not use ``data`` afterwards."""
        return self.checked(self.given(data), output)

    def given(self, data: Any) -> Any:
        """Return what the checker gets beside an output: ``data``, or the reference's output for it."""
        return self.expected(data) if self._style is CheckStyle.OUTPUT_REFERENCE else data

    def checked(self, given: Any, output: Any) -> str:
        """Return the checker's fault of ``output``, empty if there is none."""
        both = (output, given) if self._style is CheckStyle.OUTPUT_REFERENCE else (given, output)
        return verdict_text(self._guard("check_implementation", lambda: self._check(*both)))

    def record_type(self, module: str, name: str) -> type:
        """Find the class of a record, only among the task's own files."""
        loaded = sys.modules.get(module)
        origin = getattr(loaded, "__file__", None)
        if loaded is None or origin is None or Path(origin).parent != self._folder:
            raise values.BadTree(f"{module[:100]}.{name[:100]} is not defined in the task's files")
        return decode.importing_record_type(module, name)

    def _function(self, name: str) -> Callable[..., Any]:
        function = getattr(self._module, name, None)
        if not callable(function):
            raise TaskFault(f"{self._name} defines no function {name}")
        return function  # type: ignore[no-any-return]

    def _guard(self, what: str, call: Callable[[], Any]) -> Any:
        # The creator's code may raise anything, SystemExit included; none of it is our own fault
        # and none of it the contestant's.
        try:
            return call()
        except BaseException as error:
            lacked = self._lacks(str(error), self._text()) if isinstance(error, Exception) else ""
            text = f"the task's {what} failed: {self._own_lines(error)}"
            text += NOT_LISTED if isinstance(error, FileNotFoundError) else ""
            raise TaskFault(f"{lacked}\n{text}" if lacked else text) from error

    def _text(self) -> str:
        """Return the texts of the task's Python files."""
        return "\n".join(each.read_text(encoding="utf-8") for each in sorted(self._folder.glob("*.py")))

    def _own_lines(self, error: BaseException) -> str:
        """Return the traceback's part in the task's files, named without their folder."""
        if getattr(error, "is_for_people", False):
            return str(error)[:MAX_TEXT]
        frames = [
            f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(self._folder))
        ]
        lines = traceback.format_list(frames[-5:]) + traceback.format_exception_only(error)
        return "".join(lines).replace(f"{self._folder}/", "").strip()[-MAX_TEXT:]


def seed_everything(seed: int, salt: int = 0) -> None:
    """Seed the generators of random, torch and, where it is loaded, numpy."""
    seed ^= salt
    random.seed(seed)
    # As torch.manual_seed does, which spends a millisecond on registering a callback for a later GPU.
    torch.default_generator.manual_seed(seed)
    if os.environ.get("KERNELCUP_BACKEND") == "cuda" or torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def verdict_text(answer: Any) -> str:
    """Return the fault that a checker's answer names: a truth value, a text (empty: right), or both in a pair.

    Raise :class:`TaskFault` for anything else: a dict or a triple is true, whatever it holds.
    """
    if isinstance(answer, str):
        return answer
    if isinstance(answer, tuple) and len(answer) == 2 and is_text(answer[1]):
        good, text = answer
    else:
        good, text = answer, None
    if is_true(good):
        return ""
    lines = [text] if isinstance(text, str) else text or ()
    return "\n".join(lines) or "the checker rejects the output"


def is_text(value: Any) -> bool:
    """Return whether the second part of a pair is a text, lines of a text, or None."""
    lines = value if isinstance(value, (list, tuple)) else [value]
    return value is None or all(isinstance(line, str) for line in lines)


def is_true(answer: Any) -> bool:
    """Return a truth value as a bool: Python's, NumPy's, or a tensor of one. Raise :class:`TaskFault` otherwise."""
    numpy = sys.modules.get("numpy")
    if isinstance(answer, torch.Tensor) and answer.dtype is torch.bool and answer.numel() == 1:
        return bool(answer)
    if isinstance(answer, bool) or (numpy is not None and isinstance(answer, numpy.bool_)):
        return bool(answer)
    raise TaskFault(
        f"check_implementation returned {kind_of(answer)}; return a bool, a text (empty: right), or (bool, text)"
    )


def kind_of(answer: Any) -> str:
    """Name the type of a checker's answer, with the types of a short tuple's items."""
    if answer is None:
        return "None"
    name = type(answer).__name__
    if isinstance(answer, tuple) and len(answer) <= 4:
        return f"{name} ({', '.join(type(item).__name__ for item in answer)})"
    if isinstance(answer, torch.Tensor):
        return f"{name} of dtype {answer.dtype} and shape {list(answer.shape)}"
    return name
