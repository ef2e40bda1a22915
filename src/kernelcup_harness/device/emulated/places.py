"""Where tensors are under emulation: on the host or on the device, as on a GPU.

All memory is the processor's, so a mark on a tensor's storage says where the tensor would be. What a factory makes
without a device, ``Tensor.cpu()`` and conversions from NumPy return is on the host; what names the device, or is
computed from tensors on it, is there. Storages that no function of torch handed out, such as results of a C++
extension or of ``torch.Tensor(...)``, have no mark: they count as the device's and may stand beside both.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils import _device

HOST, DEVICE = "cpu", "cuda:0"
TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
NO_NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
INDICES = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
GENERATOR = "Expected a '{}' device type for generator but found '{}'"
LENGTHS = "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"

tensor_type = torch.Tensor
PACK, UNPACK = torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence
INDEXED = {tensor_type.__getitem__, tensor_type.__setitem__}
FREE = {
    *INDEXED,
    *(PACK, UNPACK, *(getattr(torch._VF, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))),
    *(tensor_type.copy_, tensor_type.to, tensor_type.type_as, tensor_type.new_tensor),
    *(tensor_type.data.__set__, tensor_type.grad.__set__, torch._has_compatible_shallow_copy_type),
    *(tensor_type.index_put, tensor_type.index_put_, torch.index_put, torch.index_put_),
    *(tensor_type.expand_as, tensor_type.view_as, tensor_type.reshape_as, torch.broadcast_tensors),
    *(torch.is_same_size, tensor_type.is_same_size, tensor_type.is_set_to, torch.result_type),
    *(torch.ctc_loss, torch.nn.functional.ctc_loss, torch._nested_view_from_jagged),
    *(each for name, each in vars(torch).items() if name.startswith("_foreach_")),
}
"""Functions whose tensors may be on two devices."""
OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
MOVES = {tensor_type.to, tensor_type.type_as}
COPIES = {torch.tensor, torch.as_tensor, torch.asarray}
LIKE_FIRST = {each for name, each in vars(torch._C.TensorBase).items() if name.startswith("new_")} | {
    each for name, each in vars(torch).items() if name.endswith("_like")
}
"""Functions that make a tensor where the first argument is."""


def place_of(tensor: torch.Tensor) -> str | None:
    """Return where a tensor is, None if that is not known."""
    try:
        return getattr(tensor.untyped_storage(), "kernelcup_place", None)
    except (NotImplementedError, RuntimeError):  # a sparse tensor, or one that is being traced
        return None


def device_of(tensor: torch.Tensor) -> str:
    """Return the name of the device that a tensor says it is on."""
    if torch.compiler.is_compiling() or tensor.is_meta:
        return "meta" if tensor.is_meta else DEVICE
    return place_of(tensor) or DEVICE


def made_at(tensor: torch.Tensor) -> str:
    """Return the file and line where a tensor on the host was made; empty if that is not known, as on a GPU."""
    return getattr(tensor.untyped_storage(), "kernelcup_line", "")


def mark(tensor: torch.Tensor, place: str | None) -> None:
    """Say where a tensor's storage is, if nothing is known of it."""
    try:
        storage: Any = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return
    if place is not None and not hasattr(storage, "kernelcup_place"):
        storage.kernelcup_place = place
        if place == HOST:
            storage.kernelcup_line = line_of_caller()


def line_of_caller() -> str:
    """Return the file and line of the innermost frame that is neither torch's nor the harness's."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in ("torch", "kernelcup_harness", "contextlib", "functools"):
            return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors in arguments or results. A list of numbers is passed over."""
    for value in values:
        if isinstance(value, tensor_type):
            yield value
        elif isinstance(value, tuple) or (
            isinstance(value, list) and value and isinstance(value[0], (tensor_type, list, tuple))
        ):
            yield from tensors_in(value)


def moved(tensor: torch.Tensor, place: str) -> torch.Tensor:
    """Return a tensor at a place: itself if it is there, else a copy."""
    if torch.compiler.is_compiling():
        return tensor.clone()
    mark(tensor, DEVICE)
    if place_of(tensor) in (place, None):
        return tensor
    with torch._C.DisableTorchFunction():
        copy = tensor.clone()
    mark(copy, place)
    return copy


def common_place(tensors: Iterable[torch.Tensor]) -> str | None:
    """Return where the result of tensors is: on the device if one of them is there."""
    places = {place_of(each) for each in tensors}
    return DEVICE if DEVICE in places else HOST if HOST in places else None


def check(func: Any, args: tuple[Any, ...], tensors: list[torch.Tensor]) -> None:
    """Raise ``RuntimeError`` in CUDA's words if a function gets tensors of two devices that must not meet."""
    if func is PACK and place_of(args[1]) == DEVICE:
        raise RuntimeError(LENGTHS)
    places = [place_of(each) for each in tensors]
    if HOST not in places or DEVICE not in places:
        return
    # A single number on the host may stand beside tensors on the device.
    on_host = [each for each, place in zip(tensors, places, strict=True) if place == HOST and each.dim()]
    indices = (each for each in tensors_in(args[1:2]) if each.dim())
    if func in INDEXED and place_of(args[0]) == HOST and common_place(indices) == DEVICE:
        raise RuntimeError(INDICES)
    if on_host and func not in FREE:
        error = RuntimeError(TWO_DEVICES)
        if line := made_at(on_host[0]):
            error.add_note(f"The tensor on cpu was made in {line}.")
        raise error


def wanted(func: Any, args: tuple[Any, ...], device: str | None, tensors: list[torch.Tensor]) -> str | None:
    """Return where the result of a function belongs; None if its arguments do not tell."""
    if func in _device._device_constructors():
        copied = func in COPIES and bool(args) and isinstance(args[0], tensor_type)
        default = _device.CURRENT_DEVICE
        named = device or (named_place(default) if default is not None else None)
        return named or (place_of(args[0]) if copied else HOST)
    if device is not None:
        return device
    if func in MOVES:
        return place_of(args[1] if len(args) > 1 and isinstance(args[1], tensor_type) else args[0])
    if func in LIKE_FIRST:
        return place_of(args[0])
    return common_place(tensors) if tensors else HOST


def named_place(device: Any) -> str | None:
    """Return the place that a device or its name means; None for none, and for a third one."""
    if isinstance(device, int) and not isinstance(device, bool):
        return DEVICE
    kind = str(device).partition(":")[0]
    return DEVICE if kind == "cuda" else HOST if kind == "cpu" else None


def called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any) -> Any:
    """Call a function of torch for tensors at their places. Raise ``RuntimeError`` if they are on two devices.

    Args:
        func: The function.
        args: Its arguments.
        kwargs: Its keyword arguments, with a device that the processor has.
        device: The device that the caller named, None for none.
    """
    tensors = [*tensors_in(args), *tensors_in(kwargs.values())] if kwargs else [*tensors_in(args)]
    # Code that was compiled calls operators, with devices that were put in when it was traced.
    if isinstance(func, OPERATORS):
        return placed(func(*args, **kwargs), common_place(tensors))
    if len(tensors) > 1:
        check(func, args, tensors)
    if "generator" in kwargs:
        check_generator(kwargs["generator"], wanted(func, args, named_place(device), tensors))
    result = func(*args, **kwargs)
    moves = device is not None or func in MOVES
    if moves or not is_placed(result):
        result = placed(result, wanted(func, args, named_place(device), tensors), force=moves)
    if func in (PACK, UNPACK):
        result[1].untyped_storage().kernelcup_place = HOST
    return result


def is_placed(result: Any) -> bool:
    """Return whether a result has no tensor, or is one that has a place, as views and answers in place have."""
    if isinstance(result, tensor_type):
        return place_of(result) is not None
    return not isinstance(result, (tuple, list)) or type(result) is torch.Size


def check_generator(generator: Any, place: str | None) -> None:
    """Raise ``RuntimeError`` in torch's words if a generator is of another device than what it fills."""
    if generator is not None and place is not None:
        expected, given = place.partition(":")[0], generator.device.type
        if expected != given:
            raise RuntimeError(GENERATOR.format(expected, given))


def placed(result: Any, place: str | None, *, force: bool = False) -> Any:
    """Return a result with its tensors marked; with ``force``, a tensor that is elsewhere is copied."""
    if force and place is not None and isinstance(result, tensor_type):
        mark(result, place)
        return moved(result, place)
    for tensor in tensors_in((result,)):
        mark(tensor, place)
    return result


def on_host(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes tensors on the host."""

    @functools.wraps(make)
    def make_and_mark(*args: Any, **kwargs: Any) -> Any:
        result = make(*args, **kwargs)
        return result if torch.compiler.is_compiling() else placed(result, HOST)

    return make_and_mark


def after_compiling(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function whose results are where its arguments are: its own code is not followed."""

    @functools.wraps(call)
    def call_and_mark(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        if torch.compiler.is_compiling():
            return result
        return placed(result, common_place(tensors_in((args, tuple(kwargs.values())))))

    return call_and_mark
