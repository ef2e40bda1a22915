"""A leaderboard in C++ or CUDA C++: its functions behind ``kernelcup.h``, as those of a ``reference.py``.

Only the judge's process loads it. An input is what ``generate_input`` made: a dict of its tensors and scalars by
name, or a tuple if a name is missing or occurs twice; so is an answer.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelcup_harness.protocol import CudaBuild
from kernelcup_harness.submission.cuda import arguments, compiling, options
from kernelcup_harness.submission.cuda.arguments import HOST, Arguments, Context, Scalar, Tensor
from kernelcup_harness.submission.port import FunctionFailed, NotCompiled
from kernelcup_harness.wire import aliasing, devices, values

MOST = 256
"""``KC_MAX_ARGS``."""
NEW_TENSOR = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.POINTER(Context),
    ctypes.POINTER(arguments.Args),
    ctypes.c_char_p,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int64),
)
NEW_SCALAR = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Context), ctypes.POINTER(arguments.Args), ctypes.POINTER(Scalar)
)
DTYPES = {number: dtype for dtype, number in arguments.NUMBERS.items()}
TOLERANCES = {torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7), torch.bfloat16: (1.6e-2, 1e-5)}
"""Of answers where the task names none: relative, absolute. Shorter formats have the last one, whole numbers none."""
SHORTER = (1e-3, 1e-5)


class Leaderboard:
    """The functions of one task, called in the judge's process.

    Args:
        entry: The file that defines them, in the working folder; compiled now unless a build has it. The
            environment says how, and how far answers may be off (:mod:`options`).

    Raises:
        NotCompiled: It does not compile or lacks a function.
    """

    def __init__(self, entry: Path) -> None:
        try:
            library = ctypes.CDLL(str(compiling.compiled(entry, os.environ)))
        except OSError as error:
            raise NotCompiled(f"the compiled library cannot be loaded: {error}") from error
        self._library = library
        self._gpu = devices.on_gpu()
        self._build = options.read(os.environ)
        self._has_check = hasattr(library, "kc_call_check_implementation")
        self._scratch: list[torch.Tensor] = []
        self._lacked: BaseException | None = None
        self._allocate = arguments.SCRATCH(self._allocated)

    def generate_input(self, seed: int = 0, **parameters: Any) -> Any:
        """Return the input of a case."""
        given = Arguments(parameters, gpu=False)
        case = Case(given.args.scalar_count, 0, given.scalars)
        made = Made(self._gpu)
        self._call("generate_input", ctypes.byref(case), ctypes.c_uint64(seed % 2**64), made.args, made=made)
        return made.value()

    def ref_kernel(self, data: Any) -> Any:
        """Return the right answer; None if it was written into ``data``."""
        made = Made(self._gpu)
        self._call("ref_kernel", Arguments(data, gpu=self._gpu).args, made.args, made=made)
        return made.value() if made.leaves else None

    def check_implementation(self, data: Any, output: Any) -> str:
        """Return what is wrong with an answer, an empty text if nothing is."""
        kept = values.with_tensors(data, torch.clone) if self._has_check else data
        right = self.ref_kernel(data)
        right = data if right is None else right
        if not self._has_check:
            return first_difference(right, output, self._build)
        given = [Arguments(value, gpu=self._gpu).args for value in (kept, right, output)]
        context = self._context()
        code = self._library.kc_call_check_implementation(*map(ctypes.byref, given), ctypes.byref(context))
        self._settle("check_implementation")
        if not code and not context.failed:
            return ""
        return context.message.decode("utf-8", "replace") or f"check_implementation returned {code}"

    def _call(self, name: str, *given: Any, made: Made) -> None:
        """Call a function that makes values. Raise :class:`FunctionFailed` if it reports a failure."""
        function = getattr(self._library, f"kc_call_{name}", None)
        if function is None:
            raise FunctionFailed(f"{name} is not defined")
        context = self._context()
        tensor, scalar = NEW_TENSOR(made.new_tensor), NEW_SCALAR(made.new_scalar)
        context.new_tensor = ctypes.cast(tensor, ctypes.c_void_p)
        context.new_scalar = ctypes.cast(scalar, ctypes.c_void_p)
        references = [ctypes.byref(each) if isinstance(each, arguments.Args) else each for each in given]
        code = function(*references, ctypes.byref(context))
        lacked = self._lacked or made.lacked
        self._lacked = None
        self._settle(name)
        if lacked is not None:
            raise lacked
        if code or context.failed:
            text = context.message.decode("utf-8", "replace")
            raise FunctionFailed(f"{name}: {text}" if text else f"{name} returned {code}")

    def _context(self) -> Context:
        context = Context(device=HOST, scratch=self._allocate)
        if self._gpu:
            context.stream = torch.cuda.current_stream().cuda_stream
            context.device = torch.cuda.current_device()
        return context

    def _settle(self, name: str) -> None:
        """Wait for the device, so that a kernel's failure is that of the function that launched it."""
        self._scratch.clear()
        if self._gpu:
            try:
                torch.cuda.synchronize()
            except RuntimeError as error:
                raise FunctionFailed(f"{name}: {error}") from error

    def _allocated(self, _context: Any, nbytes: int) -> int | None:
        """Return memory for the call in progress. Called from C: nothing may be raised here."""
        try:
            memory = torch.empty(max(1, nbytes), dtype=torch.uint8, device="cuda" if self._gpu else "cpu")
        except BaseException as error:
            self._lacked = error
            return None
        self._scratch.append(memory)
        return int(memory.data_ptr())


class Case(ctypes.Structure):
    """``kc_case``."""

    _fields_ = (
        ("count", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("values", ctypes.POINTER(Scalar)),
    )


class Made:
    """The tensors and scalars that a function makes, at addresses that stay."""

    def __init__(self, gpu: bool) -> None:
        self._gpu = gpu
        self._tensors, self._scalars = (Tensor * MOST)(), (Scalar * MOST)()
        self.args = arguments.Args(0, 0, self._tensors, self._scalars)
        self.leaves: list[tuple[str, torch.Tensor]] = []
        self.lacked: BaseException | None = None

    def value(self) -> Any:
        """Return all of them as one value."""
        scalars = [self._scalars[number] for number in range(self.args.scalar_count)]
        pairs: list[tuple[str, Any]] = [*self.leaves]
        pairs += [(name_of(each.name), scalar_value(each)) for each in scalars]
        names = [name for name, _ in pairs]
        if all(names) and len(set(names)) == len(names):
            return dict(pairs)
        return tuple(leaf for _, leaf in pairs)

    def new_tensor(
        self, _context: Any, args: Any, name: Any, dtype: int, device: int, rank: int, shape: Any
    ) -> int | None:
        """Append a tensor; None if that cannot be done. Called from C: nothing may be raised here."""
        try:
            return self._append(args, name, dtype, device, list(shape[:rank]))
        except (torch.OutOfMemoryError, MemoryError) as error:
            self.lacked = error
        except Exception as error:
            self.lacked = FunctionFailed(f"the tensor {name_of(name)} cannot be made: {error}")
        return None

    def _append(self, args: Any, name: Any, dtype: int, device: int, shape: list[int]) -> int:
        count = self.args.tensor_count
        if ctypes.addressof(args.contents) != ctypes.addressof(self.args) or count == MOST:
            raise ValueError(f"only the function's own values can grow, up to {MOST} tensors")
        where = "cuda" if device != HOST and torch.cuda.is_available() else "cpu"
        tensor = torch.empty(shape, dtype=DTYPES[dtype], device=where)
        text = name_of(name)
        self._tensors[count] = arguments.tensor_of("", tensor, gpu=self._gpu)
        # The name is the creator's own text, whose memory may not stay.
        self._tensors[count].name = text.encode()
        self.args.tensor_count = count + 1
        self.leaves.append((text, tensor))
        return ctypes.addressof(self._tensors[count])

    def new_scalar(self, _context: Any, args: Any, value: Any) -> int:
        """Append a scalar; return 0 if that was done."""
        count = self.args.scalar_count
        if ctypes.addressof(args.contents) != ctypes.addressof(self.args) or count == MOST:
            self.lacked = FunctionFailed(f"only the function's own values can grow, up to {MOST} scalars")
            return 1
        ctypes.memmove(ctypes.byref(self._scalars[count]), value, ctypes.sizeof(Scalar))
        self.args.scalar_count = count + 1
        return 0


def name_of(name: bytes | None) -> str:
    """Return a name that can be a key of a dict and be read back from its path."""
    text = (name or b"").decode("utf-8", "replace")
    return "".join(each if each.isprintable() and each not in "'\"[]\\" else "_" for each in text)


def scalar_value(scalar: Scalar) -> Any:
    """Return a scalar as a value of Python."""
    found: dict[int, Callable[[], Any]] = {
        arguments.TRUTH: lambda: bool(scalar.integer),
        arguments.INTEGER: lambda: int(scalar.integer),
        arguments.REAL: lambda: float(scalar.real),
        arguments.TEXT: lambda: (scalar.text or b"").decode("utf-8", "replace"),
        arguments.TYPE: lambda: DTYPES.get(scalar.integer),
    }
    return found.get(scalar.kind, lambda: None)()


def first_difference(expected: Any, actual: Any, build: CudaBuild) -> str:
    """Return the first part of an answer that is off by more than the tolerances, empty if none is."""
    for path, right, wrong in aliasing.leaf_pairs(expected, actual):
        if not isinstance(right, torch.Tensor):
            if right != wrong:
                return f"{path} is {wrong!r}; expected {right!r}"
            continue
        count = int(differing(right, wrong, build).sum())
        if count:
            return f"{path}: {count} of {right.numel()} elements are wrong"
    return ""


def differing(right: torch.Tensor, wrong: torch.Tensor, build: CudaBuild) -> torch.Tensor:
    """Return which elements are off by more than the tolerances."""
    if values.is_opaque(right.dtype):
        return right.view(torch.uint8) != wrong.view(torch.uint8)
    if not (right.is_floating_point() or right.is_complex()):
        return right != wrong
    relative, absolute = TOLERANCES.get(right.dtype, SHORTER)
    relative = relative if build.rtol is None else build.rtol
    absolute = absolute if build.atol is None else build.atol
    wide = torch.complex128 if right.is_complex() else torch.float64
    return ~torch.isclose(wrong.to(wide), right.to(wide), rtol=relative, atol=absolute, equal_nan=True)
