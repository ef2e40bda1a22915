"""By which names launcher, nodes and Ray refer to the same things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kernelcup.domain import Device

NAMESPACE = "kernelcup"
UNITS = "kernelcup-"
"""What the names of resources begin with that are slots."""
POOL = "kernelcup.agent.ray_pool:RayPool"
"""The class of a node's pool, as text: it reads the node's configuration, which stands above launchers."""
PIECE_BYTES = 64 << 10
"""The most bytes of one message. Ray puts what is larger than 100 kB into its object store."""

LABEL = "kernelcup.io/"
NAME = f"{LABEL}name"
CLASS = f"{LABEL}class"


def units(device: Device) -> str:
    """Return the resource whose units are slots of a device, or the GPUs that it takes several of."""
    return f"{UNITS}{device.model}"


def bundles(device: Device) -> list[dict[str, float]]:
    """Return what a job reserves, all of it on one node."""
    return [{units(device): 1} for _ in range(device.gpus)]


def resources(devices: Iterable[Device], slot_gpus: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the units that a machine has: those of a device and of its groups are the same ones."""
    found: dict[str, int] = {}
    for device in devices:
        gpus = {gpu for group in slot_gpus.get(device.name, ()) for gpu in group.split(",")}
        count = len(gpus) or device.slots * device.gpus
        found[units(device)] = max(found.get(units(device), 0), count)
    return found


def environment_label(environment: str) -> str:
    """Return the label of the nodes that have an environment; labels hold at most 63 characters."""
    return f"{LABEL}environment-{environment[:32]}"
