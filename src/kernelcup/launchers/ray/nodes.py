"""The nodes of the cluster that judge, and the pool on each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError

from kernelcup import __version__
from kernelcup.launchers.ray.names import NAME, UNITS

WAIT_S = 1.0
"""How long a pool waits for news before it answers that there are none."""
AGAIN_S = 5.0
"""How long after a pool's end another one is started."""
END_AGAIN_S = 0.02

Message = dict[str, Any]


class Node:
    """A node that is alive."""

    def __init__(self, reading: Message) -> None:
        self.id = str(reading["NodeID"])
        self.labels: Mapping[str, str] = reading["Labels"]
        self.units = {name: count for name, count in reading["Resources"].items() if _is_ours(name)}
        self.pool: Any = None
        self.hello: Message = {}
        self.trouble = "its pool is starting"

    async def start(self, pool: type) -> None:
        """Start the node's pool, or find it. Raise ``RayError`` if it cannot be had."""
        self.pool = (
            ray.remote(pool)
            .options(
                name=f"pool-{self.id}",
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                num_gpus=0,
                max_concurrency=32,
                label_selector={"ray.io/node-id": self.id},
            )
            .remote()
        )
        self.hello = await self.pool.hello.remote()
        self.trouble = self._other_version

    async def check(self) -> None:
        """Ask whether GPUs are out of service; ones that have rested are checked again."""
        unfit = await self.pool.look_again.remote()
        self.trouble = self._other_version or unfit

    async def end(self, call: str) -> None:
        """End a call, and wait until nothing of it is left."""
        try:
            while not await self.pool.end.remote(call, WAIT_S):
                pass
        except RayError:  # the pool is gone, and what it had started went with it
            pass

    @property
    def _other_version(self) -> str:
        version = self.hello.get("version")
        return "" if version == __version__ else f"it has KernelCup {version}, and the server {__version__}"


class Nodes:
    """Keeps a pool on each node.

    Args:
        pool: The class of the pools.
        news: Takes a call's news.
        lost: Told when a node or its pool has ended, and why.
    """

    def __init__(
        self, pool: type, *, news: Callable[[str, Message, Node], None], lost: Callable[[str, str], None]
    ) -> None:
        self._pool = pool
        self._news = news
        self._lost = lost
        self._nodes: dict[str, Node] = {}

    def look(self) -> list[str]:
        """Look which nodes are alive, and return the new ones."""
        found = [Node(each) for each in ray.nodes() if each["Alive"]]
        alive = {each.id: each for each in found if each.units}
        for gone in self._nodes.keys() - alive.keys():
            del self._nodes[gone]
            self._lost(gone, "its machine was lost")
        new = [name for name in alive if name not in self._nodes]
        self._nodes |= {name: alive[name] for name in new}
        return new

    def is_ready(self, name: str) -> bool:
        """Return whether a node is alive and has a pool."""
        return name in self._nodes and bool(self._nodes[name].hello)

    def ready(self, name: str) -> Node:
        """Return such a node. Raise ``KeyError``."""
        return self._nodes[name]

    async def keep(self, name: str, seen: Callable[[str], Mapping[str, int]]) -> None:
        """Keep a node's pool and take its news, while the node is alive."""
        while (node := self._nodes.get(name)) is not None:
            try:
                await node.start(self._pool)
                while name in self._nodes:
                    for call, news in (await node.pool.news.remote(seen(name), WAIT_S)).items():
                        self._news(call, news, node)
            except ActorUnavailableError:  # a passing fault of the network, or its end
                await asyncio.sleep(END_AGAIN_S)
            except (RayError, ValueError) as error:
                node.hello = {}
                node.trouble = f"its pool has ended: {text_of(error)}"
                self._lost(name, node.trouble)
                await asyncio.sleep(AGAIN_S)

    async def check(self) -> list[str]:
        """Check all nodes, and return the calls that no dispatcher has asked about for long."""
        unwanted: list[str] = []
        for node in [each for each in self._nodes.values() if each.hello]:
            try:
                await node.check()
                unwanted += await node.pool.unwanted.remote()
            except RayError:  # its own loop notices
                continue
        return unwanted

    def names(self) -> dict[str, str]:
        """Return by which names people know the nodes: their own, longer where two have the same."""
        own = {node.id: str(node.labels.get(NAME) or node.id[:12]) for node in self._nodes.values()}
        several = [name for name in own.values() if list(own.values()).count(name) > 1]
        return {node: f"{name}-{node[:8]}" if name in several else name for node, name in own.items()}

    def machines(self, held: Mapping[str, Message]) -> list[Message]:
        """Return what the dispatcher shall know of each node.

        Args:
            held: The reserved slots.
        """
        names = self.names()
        used: dict[tuple[str, str], float] = {}
        for group in held.values():
            for number, node in group["bundles_to_node_id"].items():
                for unit, count in group["bundles"][number].items():
                    used[node, unit] = used.get((node, unit), 0) + count
        return [
            {
                "node": node.id,
                "name": names[node.id],
                "labels": dict(node.labels),
                "free": {unit: count - used.get((node.id, unit), 0) for unit, count in node.units.items()},
                "slots": node.hello.get("slots", {}),
                "facts": node.hello.get("facts", {}),
                "trouble": node.trouble,
            }
            for node in self._nodes.values()
        ]


def text_of(error: Exception) -> str:
    """Return an error in one line: Ray puts whole tracebacks into its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__


def _is_ours(resource: str) -> bool:
    return resource.startswith(UNITS) and "_group_" not in resource
