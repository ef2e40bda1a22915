"""Detect the devices of this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelcup.domain import Device, grouped
from kernelcup.errors import ConfigError
from kernelcup_harness.protocol import Backend

CPU = Device(name="cpu", backend=Backend.CPU, description="The processor, for tasks that need no GPU")
EMULATED = Device(
    name="emulated",
    backend=Backend.EMULATED,
    description="Answers for a GPU on the processor: right or wrong, but no times to compare",
)

_WORDS_WITHOUT_MEANING = re.compile(r"\b(nvidia|tesla|quadro|geforce|graphics|device)\b", re.IGNORECASE)
_DATA_CENTER = re.compile(r"\b(GB|GH|[ABHLTVP])(\d{1,4})(S?)\b")
_CONSUMER = re.compile(r"\b(RTX|GTX)\s*(A?\d{4})(?:\s+(Ti|Super|Ada))?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU of this machine."""

    index: str
    """As in ``CUDA_VISIBLE_DEVICES``, counted in the order of the bus."""
    device: str
    """The name of the device that it belongs to."""


def detect_devices(gpus: Sequence[Gpu]) -> list[Device]:
    """Return a device for each GPU model, with a slot for each GPU, and the two devices that always exist."""
    names = [gpu.device for gpu in gpus]
    found = [
        Device(name=name, backend=Backend.CUDA, slots=names.count(name), description="Found by the driver")
        for name in dict.fromkeys(names)
    ]
    return [*found, EMULATED, CPU]


def detect_gpus(environ: Mapping[str, str], found: Sequence[tuple[str, str]] | None = None) -> list[Gpu]:
    """Return the GPUs that we may use, none on a machine without NVIDIA's driver.

    Args:
        found: UUID and model of each GPU; None asks the driver.
    """
    gpus = [
        (uuid, Gpu(index=str(index), device=device_name(model)))
        for index, (uuid, model) in enumerate(_ask_driver() if found is None else found)
    ]
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [gpu for _, gpu in gpus]
    allowed = [part.strip() for part in visible.split(",") if part.strip()]
    return [gpu for uuid, gpu in gpus if gpu.index in allowed or any(map(uuid.startswith, allowed))]


def shows_gpu(dev: Path = Path("/dev")) -> bool:
    """Return whether the machine has device nodes of a GPU, without which the harness cannot use one."""
    return (dev / "kfd").exists() or any(dev.glob("nvidia[0-9]*"))


def slot_gpus(devices: Sequence[Device], gpus: Sequence[Gpu]) -> dict[str, tuple[str, ...]]:
    """Return the GPU of each device's slots, or its GPUs, with commas, for a device that takes several.

    A configured device that is not named after a model takes all GPUs in order. If there are more slots than
    GPUs, slots share GPUs and wait for each other. Raise ``ConfigError`` if one job takes more GPUs than there are.
    """
    assigned = {}
    for device in devices:
        own = [gpu.index for gpu in gpus if gpu.device == device.model] or [gpu.index for gpu in gpus]
        if device.backend is Backend.CUDA and own:
            if device.gpus > len(own):
                raise ConfigError(
                    f"a job on {device.name} takes {device.gpus} GPUs; this machine has {len(own)}"
                )
            groups = grouped(own, device.gpus)
            assigned[device.name] = tuple(groups[number % len(groups)] for number in range(device.slots))
    return assigned


def device_name(model: str) -> str:
    """Return the short name of a GPU for the driver's name: ``H100`` for "NVIDIA H100 80GB HBM3"."""
    plain = _WORDS_WITHOUT_MEANING.sub(" ", model)
    if match := _CONSUMER.search(plain):
        return "".join(part for part in (match[1].upper(), match[2].upper(), match[3]) if part)
    if match := _DATA_CENTER.search(plain):
        return "".join(match.groups())
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-") or "GPU"


def _ask_driver() -> list[tuple[str, str]]:
    from kernelcup.launchers.gpu_health.probe import gpus_here

    return gpus_here()
