"""The machine code that a process loads onto its GPU, kept by CUPTI's callbacks from before the first kernel.

The driver hands over each cubin when it loads a module; it cannot be read later. Modules loaded by
``cuModuleLoadData`` are identified by their handle, the runtime's own (``cuLibraryLoadData``, loaded on first use) by
the mangled names of their kernels.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelcup_harness.device.nvidia import cupti

DRIVER_API, RESOURCE = 1, 3
"""``CUPTI_CB_DOMAIN_DRIVER_API`` and ``CUPTI_CB_DOMAIN_RESOURCE``."""
MODULE_LOADED = 6
"""``CUPTI_CBID_RESOURCE_MODULE_LOADED``."""
LOADS = {"cuModuleLoad": 18, "cuModuleLoadData": 19, "cuModuleLoadDataEx": 20, "cuModuleLoadFatBinary": 21}
"""Functions whose first parameter receives a module, with CUPTI's numbers for them."""
ENTER = 0


class NoImages(RuntimeError):
    """CUPTI is missing, or another tool uses it."""


class _CallbackData(ctypes.Structure):
    """The beginning of ``CUpti_CallbackData``."""

    _fields_ = (
        ("site", ctypes.c_int),
        ("function", ctypes.c_char_p),
        ("parameters", ctypes.c_void_p),
    )


class _ResourceData(ctypes.Structure):
    """``CUpti_ResourceData``."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("descriptor", ctypes.c_void_p),
    )


class _ModuleData(ctypes.Structure):
    """``CUpti_ModuleResourceData``."""

    _fields_ = (
        ("module", ctypes.c_uint32),
        ("nbytes", ctypes.c_size_t),
        ("code", ctypes.c_void_p),
    )


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


@dataclass(slots=True)
class Loaded:
    """The loaded images, in order, and the index of the image of each module handle."""

    codes: list[bytes] = field(default_factory=list)
    by_module: dict[int, int] = field(default_factory=dict)


class ImageKeeper:
    """Keeps every image that this process loads. Create it before the driver is initialized.

    Raises:
        NoImages: CUPTI cannot be loaded or refuses.
    """

    def __init__(self) -> None:
        self.loaded = Loaded()
        self._before = 0
        try:
            self._cupti = cupti.library()
        except OSError as error:
            raise NoImages(str(error)) from error
        self._callback = _CALLBACK(self._called)  # must live as long as the subscription
        subscriber = ctypes.c_void_p()
        self._check(self._cupti.cuptiSubscribe(ctypes.byref(subscriber), self._callback, None))
        self._subscriber = subscriber
        self._check(self._cupti.cuptiEnableCallback(1, subscriber, RESOURCE, MODULE_LOADED))
        for number in LOADS.values():
            self._check(self._cupti.cuptiEnableCallback(1, subscriber, DRIVER_API, number))

    def stop(self) -> None:
        """Keep no more images."""
        self._cupti.cuptiUnsubscribe(self._subscriber)

    def _called(self, _user: int, domain: int, number: int, data: int) -> None:
        # Raises nothing: an exception would only be printed, and a missing image is refused by name later.
        if domain == RESOURCE and number == MODULE_LOADED:
            resource = _ResourceData.from_address(data)
            module = _ModuleData.from_address(resource.descriptor)
            if module.code:
                self.loaded.codes.append(ctypes.string_at(module.code, module.nbytes))
        elif domain == DRIVER_API:
            call = _CallbackData.from_address(data)
            self._load(call)

    def _load(self, call: _CallbackData) -> None:
        if call.site == ENTER:
            self._before = len(self.loaded.codes)
        elif call.parameters and len(self.loaded.codes) == self._before + 1:
            receiver = ctypes.c_void_p.from_address(call.parameters).value
            module = ctypes.c_void_p.from_address(receiver).value if receiver else None
            if module:
                self.loaded.by_module[module] = self._before

    def _check(self, code: int) -> None:
        if code:
            raise NoImages(f"CUPTI answers {code}")


SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMBOL_TABLE = 2
OBJECTS = (1, 12, 13)
"""Symbol types of variables: ``STT_OBJECT``, and two more that NVIDIA's linker uses."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """The names in an image: kernels, and variables with their sizes in bytes."""

    kernels: frozenset[str]
    variables: dict[str, int]


def symbols_of(code: bytes) -> Symbols:
    """Read the names of an image; none if it is not an ELF file."""
    if code[:4] != b"\x7fELF":
        return Symbols(frozenset(), {})
    try:
        sections = list(_sections(code))
        kernels = frozenset(name[6:] for name, *_ in sections if name.startswith(".text."))
        return Symbols(kernels, dict(_variables(code, sections)))
    except (struct.error, ValueError, IndexError, OverflowError):
        return Symbols(frozenset(), {})


def _sections(code: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    (begin,) = struct.unpack_from("<Q", code, 0x28)
    size, count, names = struct.unpack_from("<HHH", code, 0x3A)
    headers = [SECTION.unpack_from(code, begin + place * size) for place in range(count)]
    for header in headers:
        yield _name(code, headers[names][4] + header[0]), header


def _variables(code: bytes, sections: list[tuple[str, tuple[int, ...]]]) -> Iterator[tuple[str, int]]:
    for _, header in sections:
        if header[1] != SYMBOL_TABLE or not header[9]:
            continue
        strings = sections[header[6]][1][4]
        for place in range(header[5] // header[9]):
            name, info, _, section, _, size = SYMBOL.unpack_from(code, header[4] + place * header[9])
            if info & 15 not in OBJECTS or not size or not 0 < section < len(sections):
                continue
            if sections[section][0].startswith((".nv.global", ".nv.constant3")):
                yield _name(code, strings + name), size


def _name(code: bytes, begin: int) -> str:
    return code[begin : code.index(b"\0", begin)].decode(errors="replace")
