"""The device nodes that a job sees: those of its own GPUs, and the shared ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelcup_harness.isolation.layout import DeviceNodes

# Nodes that CUDA and ROCm open for any GPU.
NVIDIA_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")
AMD_SHARED = ("kfd",)
AMD_VARIABLES = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True, kw_only=True, slots=True)
class NvidiaGpu:
    """One GPU as the driver describes it in /proc."""

    bus: str
    uuid: str
    minor: int


def nodes(
    environ: Mapping[str, str],
    *,
    dev: Path = Path("/dev"),
    driver: Path = Path("/proc/driver/nvidia/gpus"),
) -> DeviceNodes:
    """Return the nodes of the GPUs that ``environ`` names; all nodes if the GPUs cannot be identified.

    Args:
        environ: Variables like ``CUDA_VISIBLE_DEVICES`` that name the job's GPUs.
        dev: The folder of device nodes.
        driver: The folder in which the NVIDIA driver describes its GPUs.
    """
    chosen = chosen_gpus(environ, nvidia_gpus(driver))
    names = [f"nvidia{gpu.minor}" for gpu in chosen or []]
    known = bool(names) and all((dev / name).exists() for name in names)
    if not known:
        names = sorted(path.name for path in dev.glob("nvidia[0-9]*"))
    names += [*NVIDIA_SHARED, *AMD_SHARED, *render_nodes(environ, dev)]
    paths = tuple(str(dev / name) for name in names if (dev / name).exists())
    # CUDA counts only GPUs whose nodes it can open, so a number from outside would name another GPU or none; an id
    # names the same one everywhere.
    return DeviceNodes(
        paths=paths,
        environment={"CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in chosen or [])} if known else {},
    )


def nvidia_gpus(driver: Path) -> list[NvidiaGpu]:
    """Return the GPUs in the order of the bus, as in ``nvidia-smi``."""
    found = []
    for file in sorted(driver.glob("*/information")):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        minor, uuid = told.get("Device Minor", ""), told.get("GPU UUID", "")
        if minor.isdigit() and uuid.startswith("GPU-"):
            found.append(NvidiaGpu(bus=file.parent.name, uuid=uuid, minor=int(minor)))
    return found


def chosen_gpus(environ: Mapping[str, str], gpus: list[NvidiaGpu]) -> list[NvidiaGpu] | None:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` names, None unless it identifies each of them."""
    named = environ.get("CUDA_VISIBLE_DEVICES", "")
    # Without this order CUDA numbers the fastest GPU first, and only CUDA knows which that is.
    ordered = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(gpus) == 1
    chosen = []
    for part in map(str.strip, named.split(",")):
        fitting = [gpu for gpu in gpus if part.startswith("GPU-") and gpu.uuid.startswith(part)]
        if ordered and part.isdigit() and int(part) < len(gpus):
            fitting = [gpus[int(part)]]
        if len(fitting) != 1:
            return None
        chosen += fitting
    return chosen


def render_nodes(environ: Mapping[str, str], dev: Path) -> list[str]:
    """Return AMD's nodes: those with the numbers that the variables name, else all.

    The first GPU of ROCm has the lowest render node. A number without a GPU shows all.
    """
    found = sorted(
        (path.name for path in (dev / "dri").glob("renderD*")), key=lambda name: int(re.sub(r"\D", "", name))
    )
    # The variables apply in order: the second selects among the GPUs that the first has left.
    for variable in AMD_VARIABLES:
        parts = [part.strip() for part in environ.get(variable, "").split(",") if part.strip()]
        if parts and all(part.isdigit() and int(part) < len(found) for part in parts):
            found = [found[int(part)] for part in parts]
    return [f"dri/{name}" for name in found]
