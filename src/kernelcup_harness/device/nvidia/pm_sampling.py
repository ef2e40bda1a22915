"""Hardware counters of a whole GPU, sampled by the hardware itself (CUPTI's PM sampling).

The process that samples needs no context, so no code on the device can reach its memory. There is one sampler for each
device, and one configuration for each process: CUPTI ignores a second one, or crashes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernelcup_harness.device.nvidia import cupti
from kernelcup_harness.window.reasons import NoCounters

PM_SAMPLING = 1
"""``CUPTI_PROFILER_TYPE_PM_SAMPLING``."""
BY_TIME, KEEP_OLDEST = 1, 0
"""``..._TRIGGER_MODE_GPU_TIME_INTERVAL`` and ``..._APPEND_MODE_KEEP_OLDEST``."""
END_OF_RECORDS = 2
TIME_MASK = (1 << 52) - 1
"""The device's timer without its high bits, which differ between processes."""


class _Params(ctypes.Structure):
    """The head of each of CUPTI's parameter structures; ``last`` names the last field that this version has."""

    _fields_ = (("size", ctypes.c_size_t), ("private", ctypes.c_void_p))
    last: ClassVar[str] = ""

    @classmethod
    def made(cls, **values: Any) -> Any:
        """Return one with its size set."""
        made = cls(**values)
        field = getattr(cls, cls.last) if cls.last else None
        made.size = field.offset + field.size if field is not None else ctypes.sizeof(cls)
        return made


def _struct(name: str, *fields: tuple[str, Any], last: str = "") -> Any:
    return type(name, (_Params,), {"_fields_": fields, "last": last or (fields[-1][0] if fields else "")})


_pointer, _size = ctypes.c_void_p, ctypes.c_size_t
_Initialize = _struct("_Initialize")
_ChipName = _struct("_ChipName", ("device", _size), ("name", ctypes.c_char_p))
_Availability = _struct("_Availability", ("device", _size), ("image_bytes", _size), ("image", _pointer))
_Enable = _struct("_Enable", ("device", _size), ("sampler", _pointer))
_Sampler = _struct("_Sampler", ("sampler", _pointer))
_SetConfig = _struct(
    "_SetConfig",
    ("sampler", _pointer),
    ("config_bytes", _size),
    ("config", _pointer),
    ("buffer_bytes", _size),
    ("interval", ctypes.c_uint64),
    ("trigger", ctypes.c_int),
    ("append", ctypes.c_int),
)
_Decode = _struct(
    "_Decode",
    ("sampler", _pointer),
    ("image", _pointer),
    ("image_bytes", _size),
    ("why_stopped", ctypes.c_int),
    ("overflow", ctypes.c_uint8),
)
_ImageSize = _struct(
    "_ImageSize",
    ("sampler", _pointer),
    ("names", _pointer),
    ("count", _size),
    ("most", ctypes.c_uint32),
    ("image_bytes", _size),
)
_InitImage = _struct("_InitImage", ("sampler", _pointer), ("image_bytes", _size), ("image", _pointer))
_ImageInfo = _struct(
    "_ImageInfo",
    ("image", _pointer),
    ("image_bytes", _size),
    ("total", _size),
    ("populated", _size),
    ("completed", _size),
)
_SampleInfo = _struct(
    "_SampleInfo",
    ("sampler", _pointer),
    ("image", _pointer),
    ("image_bytes", _size),
    ("index", _size),
    ("start", ctypes.c_uint64),
    ("end", ctypes.c_uint64),
)
_HostInit = _struct(
    "_HostInit",
    ("kind", ctypes.c_int),
    ("chip", ctypes.c_char_p),
    ("available", _pointer),
    ("host", _pointer),
)
_AddMetrics = _struct("_AddMetrics", ("host", _pointer), ("names", _pointer), ("count", _size))
_ConfigSize = _struct("_ConfigSize", ("host", _pointer), ("config_bytes", _size))
_GetConfig = _struct("_GetConfig", ("host", _pointer), ("config_bytes", _size), ("config", _pointer))
_Passes = _struct("_Passes", ("config_bytes", _size), ("config", _pointer), ("passes", _size))
_Evaluate = _struct(
    "_Evaluate",
    ("host", _pointer),
    ("image", _pointer),
    ("image_bytes", _size),
    ("index", _size),
    ("names", _pointer),
    ("count", _size),
    ("values", _pointer),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One interval of the device's timer, and the counters over it."""

    start_ns: int
    end_ns: int
    values: tuple[float, ...]


class Sampler:
    """Samples counters of one GPU.

    Args:
        counters: CUPTI's names of them; all in one pass.
        interval_ns: Between two samples.
        most: Most samples of one watch.
        device: The number of the GPU.

    Raises:
        NoCounters: CUPTI is missing or refuses, or the counters do not fit into one pass.
    """

    idle: Sequence[float] = ()

    def __init__(self, counters: Sequence[str], *, interval_ns: int, most: int, device: int = 0) -> None:
        self._device = device
        try:
            self._cupti = cupti.library()
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoCounters(str(error)) from error
        code = driver.cuInit(0)
        if code:
            raise NoCounters(f"cuInit answers {code}")
        self._names = (ctypes.c_char_p * len(counters))(*(each.encode() for each in counters))
        self._values = (ctypes.c_double * len(counters))()
        self._call("cuptiProfilerInitialize", _Initialize.made())
        chip = self._call("cuptiDeviceGetChipName", _ChipName.made(device=device)).name
        self._available = self._availability()
        self._sampler = self._call("cuptiPmSamplingEnable", _Enable.made(device=device)).sampler
        self._host = self._call(
            "cuptiProfilerHostInitialize",
            _HostInit.made(kind=PM_SAMPLING, chip=chip, available=ctypes.addressof(self._available)),
        ).host
        self._configure(interval_ns, most)

    def start(self) -> None:
        """Begin to sample."""
        self._call("cuptiPmSamplingStart", _Sampler.made(sampler=self._sampler))

    def stop(self) -> None:
        self._call("cuptiPmSamplingStop", _Sampler.made(sampler=self._sampler))

    def read(self) -> list[Sample]:
        """Return all samples but the first, which reaches back to the last stop, and make ready for another watch.

        Raise :class:`NoCounters` if samples were lost.
        """
        try:
            return self._decoded()
        finally:
            self._clear()

    def _decoded(self) -> list[Sample]:
        image = {"image": ctypes.addressof(self._image), "image_bytes": len(self._image)}
        decoded = self._call("cuptiPmSamplingDecodeData", _Decode.made(sampler=self._sampler, **image))
        if decoded.overflow or decoded.why_stopped != END_OF_RECORDS:
            # What does not fit is dropped without a word: an image that is full counts as too small.
            raise NoCounters("samples were lost: the watch was too long")
        info = self._call("cuptiPmSamplingGetCounterDataInfo", _ImageInfo.made(**image))
        times = _SampleInfo.made(sampler=self._sampler, **image)
        names = {"names": ctypes.addressof(self._names), "count": len(self._names)}
        values = {"host": self._host, "values": ctypes.addressof(self._values)}
        counts = _Evaluate.made(**image, **names, **values)
        return [self._sample(index, times, counts) for index in range(1, info.completed)]

    def _availability(self) -> Any:
        found = self._call("cuptiPmSamplingGetCounterAvailability", _Availability.made(device=self._device))
        made = ctypes.create_string_buffer(max(1, found.image_bytes))
        again = _Availability.made(
            device=self._device, image_bytes=found.image_bytes, image=ctypes.addressof(made)
        )
        self._call("cuptiPmSamplingGetCounterAvailability", again)
        return made

    def _configure(self, interval_ns: int, most: int) -> None:
        names = {"names": ctypes.addressof(self._names), "count": len(self._names)}
        self._call("cuptiProfilerHostConfigAddMetrics", _AddMetrics.made(host=self._host, **names))
        nbytes = self._call(
            "cuptiProfilerHostGetConfigImageSize", _ConfigSize.made(host=self._host)
        ).config_bytes
        self._config = ctypes.create_string_buffer(nbytes)
        config = {"config": ctypes.addressof(self._config), "config_bytes": nbytes}
        self._call("cuptiProfilerHostGetConfigImage", _GetConfig.made(host=self._host, **config))
        passes = self._call("cuptiProfilerHostGetNumOfPasses", _Passes.made(**config)).passes
        if passes != 1:
            raise NoCounters(f"the counters take {passes} passes")
        self._call(
            "cuptiPmSamplingSetConfig",
            _SetConfig.made(
                sampler=self._sampler,
                buffer_bytes=BUFFER_BYTES,
                interval=interval_ns,
                trigger=BY_TIME,
                append=KEEP_OLDEST,
                **config,
            ),
        )
        size = _ImageSize.made(sampler=self._sampler, most=most, **names)
        self._image = (ctypes.c_char * self._call("cuptiPmSamplingGetCounterDataSize", size).image_bytes)()
        self._clear()

    def _clear(self) -> None:
        made = _InitImage.made(
            sampler=self._sampler, image=ctypes.addressof(self._image), image_bytes=len(self._image)
        )
        self._call("cuptiPmSamplingCounterDataImageInitialize", made)

    def _sample(self, index: int, times: Any, counts: Any) -> Sample:
        times.index = counts.index = index
        self._call("cuptiPmSamplingCounterDataGetSampleInfo", times)
        self._call("cuptiProfilerHostEvaluateToGpuValues", counts)
        return Sample(times.start & TIME_MASK, times.end & TIME_MASK, tuple(self._values))

    def _call(self, name: str, params: Any) -> Any:
        code = getattr(self._cupti, name)(ctypes.byref(params))
        if code:
            raise NoCounters(f"{name} answers {code}{self._explained(code)}")
        return params

    def _explained(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._cupti.cuptiGetResultString(code, ctypes.byref(text))
        return f" ({text.value.decode(errors='replace')})" if text.value else ""


BUFFER_BYTES = 128 << 20
"""Of the hardware's records between two decodings."""
