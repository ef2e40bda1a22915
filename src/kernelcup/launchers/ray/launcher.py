"""The launcher for one's own machines: Ray places jobs, and notices lost nodes.

It keeps what the bridge says (:mod:`kernelcup.launchers.ray.bridge`), so no method waits for the cluster.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernelcup.domain import Device
from kernelcup.errors import ConfigError, LaunchError, LaunchLost, LaunchTimeout, NoRoom
from kernelcup.launchers import outcomes
from kernelcup.launchers.base import (
    Event,
    LauncherSettings,
    LaunchResult,
    MachineReading,
    Order,
    Polled,
    limit_s,
)
from kernelcup.launchers.bundle import bundle_of
from kernelcup.launchers.ray import names
from kernelcup.launchers.ray.line import Line
from kernelcup_harness.protocol import to_json

ADDRESS = "127.0.0.1:6379"
MARGIN_S = 180.0
"""Beyond a job's own limit, at which its machine ends it: for the slot, the harness and the report."""

Message = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class _Call:
    device: Device | None
    """None if another process began it."""
    until: float = math.inf
    events: list[Event] = field(default_factory=list)
    seen: int | None = None
    """How many events came; None leaves those that an earlier process took."""
    outcome: LaunchResult | Exception | None = None
    machine: str = ""
    is_held: bool = False
    """Whether Ray has reserved its slot."""
    wake: Callable[[], None] = lambda: None


class RayLauncher:
    """Sends jobs to the nodes of a Ray cluster. A call is a placement group and an entry of its node's pool.

    Args:
        address: The cluster's head, as ``HOST:PORT``. This machine has to be one of its nodes.
        bundles: The folder for zips of the harness.
        labels: For each device, labels that its nodes must have.
        pool: The class of the pools; tests have one of their own.
    """

    durable = True

    def __init__(
        self,
        address: str,
        *,
        bundles: Path,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        pool: str = names.POOL,
    ) -> None:
        self._bundles = bundles
        self._labels = labels or {}
        self._lock = threading.RLock()
        self._calls: dict[str, _Call] = {}
        self._ending: set[str] = set()
        """Calls that were cancelled and may still hold their slots."""
        self._held: frozenset[str] = frozenset()
        self._machines: Sequence[Message] = ()
        self._line = Line(address, pool, take=self._take)

    def capacity(self, device: Device) -> int:
        """Return the free slots of all nodes. Raise ``LaunchError`` while the cluster does not answer."""
        with self._lock:
            self._line.check()
            return sum(map(self._free(device), self._serving(device))) - self._under_way(device)

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:
        """Have Ray reserve a slot and the machine begin. Raise ``NoRoom``, ``LaunchError``."""
        with self._lock:
            self._line.check()
            needed = self._needed(order)
            nodes = [each for each in self._serving(order.device, needed) if _may(order, each)]
            if sum(map(self._free(order.device), nodes)) <= self._under_way(order.device):
                raise NoRoom(f"no machine for {order.device.name} has a free slot")
            call = f"call-{secrets.token_hex(12)}"
            bundle = bundle_of(self._bundles, order.harness_hash)
            self._line.send(
                {
                    "begin": call,
                    "bundles": names.bundles(order.device),
                    "labels": {**needed, "ray.io/node-id": f"in({','.join(each['node'] for each in nodes)})"},
                    "spec": to_json(order.spec),
                    "device": order.device.name,
                    "harness": order.harness_hash,
                    "zip": str(bundle),
                }
            )
            until = time.monotonic() + limit_s(order.spec) + MARGIN_S
            self._calls[call] = _Call(device=order.device, until=until, seen=0, wake=wake)
            return call

    def poll(self, calls: Collection[str]) -> Mapping[str, Polled]:
        """Return the news of calls."""
        with self._lock:
            news = {name: self._news(name) for name in calls}
            if any(each.outcome is None for each in news.values()):
                with suppress(LaunchError):  # a call that has ended is reported all the same
                    self._line.check()
            return news

    def cancel(self, call: str) -> None:
        """End a call if it still runs, and forget it."""
        with self._lock:
            if self._calls.pop(call, None) is not None or call in self._held:
                self._ending.add(call)
                self._line.send({"cancel": call})

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return the nodes that judge, with those whose pools are in trouble."""
        with self._lock:
            self._line.check()
            return [
                MachineReading(
                    name=each["name"],
                    slots=each["slots"],
                    free={device.name: max(self._free(device)(each), 0) for device in devices},
                    facts=each["facts"],
                    trouble=each["trouble"],
                )
                for each in self._machines
            ]

    def close(self) -> None:
        """Leave the cluster; calls go on."""
        self._line.close()

    def _news(self, name: str) -> Polled:
        call = self._calls.get(name)
        if call is None:
            self._line.check()
            if name not in self._held or name in self._ending:
                return Polled(outcome=LaunchLost("the cluster does not know the call (any more)"))
            call = self._calls[name] = _Call(device=None, is_held=True)
            self._line.send({"watch": name, "seen": None})
        if call.outcome is None and time.monotonic() > call.until:
            call.outcome = LaunchTimeout("its machine made no report in time")
            self._line.send({"cancel": name})
        events, call.events = call.events, []
        return Polled(events=events, outcome=call.outcome, machine=call.machine)

    def _serving(self, device: Device, needed: Mapping[str, str] | None = None) -> list[Message]:
        labels = (self._labels.get(device.name, {}) if needed is None else needed).items()
        return [
            each
            for each in self._machines
            if device.name in each["slots"] and not each["trouble"] and labels <= each["labels"].items()
        ]

    def _needed(self, order: Order) -> dict[str, str]:
        """Return the labels of the nodes that can judge a job."""
        needed = dict(self._labels.get(order.device.name, {}))
        if order.spec.environment:
            needed[names.environment_label(order.spec.environment)] = "yes"
        return needed

    def _free(self, device: Device) -> Callable[[Message], int]:
        """Return the function that counts the free slots of a machine."""
        return lambda each: int(each["free"].get(names.units(device), 0)) // device.gpus

    def _under_way(self, device: Device) -> int:
        """Return how many slots are promised to calls for which Ray has not reserved one yet."""
        return sum(
            call.device is not None
            and call.device.model == device.model
            and not call.is_held
            and call.outcome is None
            for call in self._calls.values()
        )

    def _take(self, message: Message) -> None:
        """Take a message of the bridge; called in the line's thread."""
        with self._lock:
            if "machines" in message:
                self._look(message)
                return
            call = self._calls.get(message["call"])
            if call is None or call.outcome is not None:
                return
            call.machine = message.get("machine", call.machine)
            call.events += message.get("events", [])
            call.seen = (call.seen or 0) + len(message.get("events", []))
            if "outcome" in message:
                call.outcome = outcomes.decode(message["outcome"], machine=call.machine)
        call.wake()

    def _look(self, message: Message) -> None:
        """Take the state of the cluster."""
        self._machines, self._held = message["machines"], frozenset(message["held"])
        self._ending &= self._held
        for name, call in self._calls.items():
            call.is_held |= name in self._held
        if not message["first"]:
            return
        # The bridge is another process than before: tell it what is ours.
        for name, call in self._calls.items():
            if call.outcome is None and name in self._held:
                self._line.send({"watch": name, "seen": call.seen})
            elif call.outcome is None:
                call.outcome = LaunchLost("the cluster does not know the call any more")
                call.wake()
        for name in self._ending:
            self._line.send({"cancel": name})


def _may(order: Order, machine: Message) -> bool:
    return order.machines is None or machine["name"] in order.machines


def make(settings: LauncherSettings) -> RayLauncher:
    """Return the launcher of ``[launchers.ray]``. Raise ``ConfigError``."""
    options = dict(settings.launcher_options.get("ray", {}))
    address, labels = options.pop("address", ADDRESS), options.pop("labels", {})
    if options or not isinstance(address, str) or not _are_labels(labels):
        raise ConfigError(
            '[launchers.ray]: expected address = "HOST:PORT", and tables labels.DEVICE with NAME = "VALUE", at most'
        )
    if find_spec("ray") is None:
        raise ConfigError('the launcher ray needs Ray: pip install "ray[default]>=2.60"')
    return RayLauncher(address, bundles=settings.data_dir / "harness", labels=labels)


def _are_labels(labels: object) -> bool:
    return isinstance(labels, dict) and all(
        isinstance(some, dict) and all(isinstance(value, str) for value in some.values())
        for some in labels.values()
    )
