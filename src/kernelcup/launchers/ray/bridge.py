"""The process that speaks with Ray: ``python -m kernelcup.launchers.ray.bridge FD ADDRESS POOL``.

A client of Ray hangs while the cluster's head is away, and Ray ends the client's process after a minute of that. So
it is not the dispatcher's process. Messages are JSON over a pipe. When the pipe ends, this process ends, and the
calls go on.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import placement_group

from kernelcup.clean_text import load_json
from kernelcup.errors import LaunchError, LaunchLost
from kernelcup.launchers import outcomes
from kernelcup.launchers.ray import groups
from kernelcup.launchers.ray.names import NAMESPACE, PIECE_BYTES
from kernelcup.launchers.ray.nodes import Node, Nodes, text_of

LOOK_EVERY_S = 1.0
SWEEP_EVERY_S = 30.0
FINISH_S = 10.0
"""How long this process outlives its dispatcher, to end calls."""
PLACE_S = 60.0
"""How long a job waits for a slot that was free when it was sent here."""

Message = dict[str, Any]


class Bridge:
    """Carries calls to the pools of the nodes, and their news to the dispatcher.

    Args:
        send: Sends a message to the dispatcher.
        pool: The class of the pools.
    """

    def __init__(self, send: Callable[[Message], None], pool: type) -> None:
        self._send = send
        self._nodes = Nodes(pool, news=self._take, lost=self._lost)
        self._calls: dict[str, str] = {}
        """The node of each of our calls that a machine works on."""
        self._seen: dict[str, int] = {}
        self._beginning: dict[str, asyncio.Task[None]] = {}
        self._unwanted: set[str] = set()
        """Calls that shall not begin any more."""
        self._strange: set[str] = set()
        """Slots without a call, as the last sweep found them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Look after the nodes, for ever."""
        swept_at = time.monotonic()
        while True:
            for node in self._nodes.look():
                self._spawn(self._nodes.keep(node, self._seen_on))
            self._tell()
            if time.monotonic() - swept_at > SWEEP_EVERY_S:
                swept_at = time.monotonic()
                self._spawn(self._sweep())
            await asyncio.sleep(LOOK_EVERY_S)

    def obey(self, message: Message) -> None:
        """Do what the dispatcher wants."""
        if "begin" in message:
            call = message["begin"]
            self._beginning[call] = self._spawn(self._begin(call, message))
        elif "watch" in message:
            self._spawn(self._watch(message["watch"], message["seen"]))
        else:
            self._spawn(self._cancel(message["cancel"]), is_end=True)

    async def finish(self) -> None:
        """Wait until the calls that shall end have ended."""
        if self._ends:
            await asyncio.wait(self._ends, timeout=FINISH_S)

    def _spawn(self, work: Coroutine[Any, Any, None], *, is_end: bool = False) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        (self._ends if is_end else self._tasks).add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ends.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._send({"fault": f"{type(error).__name__}: {error}"})

    def _tell(self) -> None:
        held = groups.held()
        self._send({"machines": self._nodes.machines(held), "held": list(held)})

    def _seen_on(self, node: str) -> dict[str, int]:
        return {call: self._seen[call] for call, its_node in self._calls.items() if its_node == node}

    def _take(self, call: str, news: Message, node: Node) -> None:
        """Pass a call's news on."""
        if call not in self._calls:
            return
        if "unknown" in news:
            self._lose(call, "its machine does not know it")
            return
        if events := news.get("events"):
            self._seen[call] += len(events)
            self._send({"call": call, "events": events})
        if "size" in news:
            del self._calls[call]
            self._spawn(self._fetch(call, news["size"], node))

    async def _fetch(self, call: str, size: int, node: Node) -> None:
        text = b""
        try:
            while len(text) < size:
                text += await node.pool.outcome.remote(call, len(text))
            outcome = load_json(text)
            if outcome.get("unfit"):
                await node.check()
                self._tell()
        except RayError as error:
            self._lose(call, f"its machine was lost before it had sent its report: {text_of(error)}")
            return
        self._send({"call": call, "outcome": outcome})

    async def _begin(self, call: str, order: Message) -> None:
        try:
            await self._hand_over(call, order, await self._placed(call, order))
        except Exception as error:
            lost = isinstance(error, RayError | LaunchLost)
            text = f"the job cannot be started on Ray: {text_of(error)}"
            self._fail(call, LaunchLost(text) if lost else LaunchError(text))
        finally:
            self._unwanted.discard(call)
            del self._beginning[call]

    async def _placed(self, call: str, order: Message) -> str:
        """Reserve a slot, and return its node."""
        group = placement_group(
            order["bundles"],
            strategy="STRICT_PACK",
            name=call,
            lifetime="detached",
            bundle_label_selector=[order["labels"]] * len(order["bundles"]),
        )
        until = time.monotonic() + PLACE_S
        while (node := groups.node_of(group)) is None:
            if call in self._unwanted or time.monotonic() > until:
                raise LaunchLost(f"no node had a free slot within {PLACE_S:.0f} s")
            await asyncio.sleep(0.002)
        return node

    async def _hand_over(self, call: str, order: Message, name: str) -> None:
        node = self._nodes.ready(name)
        self._send({"call": call, "machine": self._nodes.names()[name]})
        self._tell()
        if not await node.pool.has_harness.remote(order["harness"]):
            await _feed(node.pool, f"{call}.zip", read(order["zip"]))
        body = {key: order[key] for key in ("spec", "device", "harness")}
        await _feed(node.pool, call, json.dumps(body).encode())
        self._calls[call], self._seen[call] = name, 0
        await node.pool.begin.remote(call)

    async def _watch(self, call: str, seen: int | None) -> None:
        """Go on with the call of another process; without ``seen``, its earlier events are left out."""
        until = time.monotonic() + PLACE_S
        name = None
        while name is None or not self._nodes.is_ready(name):
            group = groups.find(call)
            if group is None or time.monotonic() > until:
                self._fail(call, LaunchLost("its machine was lost"))
                return
            await asyncio.sleep(0.05)
            name = groups.node_of(group)
        try:
            known = await self._nodes.ready(name).pool.seen.remote(call)
        except RayError as error:
            self._fail(call, LaunchLost(f"its machine was lost: {text_of(error)}"))
            return
        if known is None:
            self._fail(call, LaunchLost("its machine does not know it"))
            return
        self._calls[call], self._seen[call] = name, known if seen is None else seen
        self._send({"call": call, "machine": self._nodes.names()[name]})

    def _lost(self, node: str, why: str) -> None:
        for call in list(self._seen_on(node)):
            self._lose(call, why)

    def _lose(self, call: str, why: str) -> None:
        self._calls.pop(call, None)
        self._fail(call, LaunchLost(why))

    def _fail(self, call: str, error: Exception) -> None:
        self._send({"call": call, "outcome": outcomes.encode(error)})
        self._spawn(self._release(call), is_end=True)

    async def _cancel(self, call: str) -> None:
        if (task := self._beginning.get(call)) is not None:
            self._unwanted.add(call)
            await asyncio.wait([task])
        await self._release(call)

    async def _release(self, call: str) -> None:
        """End a call, and free its slot once nothing of it is left."""
        self._calls.pop(call, None)
        self._seen.pop(call, None)
        group = groups.find(call)
        if group is None:
            return
        name = groups.node_of(group)
        if name is not None and self._nodes.is_ready(name):
            await self._nodes.ready(name).end(call)
        groups.remove(group)
        self._tell()

    async def _sweep(self) -> None:
        """End what no dispatcher wants any more: old calls, and slots without a call."""
        for call in await self._nodes.check():
            await self._release(call)
        without = set()
        for call, group in groups.held().items():
            name = group["bundles_to_node_id"].get(0, "")
            if call in self._beginning or call in self._calls or not self._nodes.is_ready(name):
                continue
            if await self._nodes.ready(name).pool.seen.remote(call) is None:
                without.add(call)
        for call in without & self._strange:
            await self._release(call)
        self._strange = without


def read(path: str) -> bytes:
    """Return what a file holds."""
    return Path(path).read_bytes()


async def _feed(pool: Any, key: str, content: bytes) -> None:
    for offset in range(0, len(content), PIECE_BYTES):
        await pool.feed.remote(key, offset, content[offset : offset + PIECE_BYTES])


async def serve(line: Connection, pool: type) -> None:
    """Obey the dispatcher at the other end of the line until it is gone."""
    gone = asyncio.Event()

    def send(message: Message) -> None:
        with suppress(OSError):  # it is gone, and the end of what it sent says so
            line.send_bytes(json.dumps(message).encode())

    def read() -> None:
        try:
            while line.poll():
                bridge.obey(load_json(line.recv_bytes()))
        except (EOFError, OSError):
            loop.remove_reader(line.fileno())
            gone.set()

    loop, bridge = asyncio.get_running_loop(), Bridge(send, pool)
    loop.add_reader(line.fileno(), read)
    work = loop.create_task(bridge.run())
    await asyncio.wait([work, loop.create_task(gone.wait())], return_when=asyncio.FIRST_COMPLETED)
    await bridge.finish()
    os._exit(0)  # an orderly end would wait for the cluster


def main(descriptor: str, address: str, pool: str) -> None:
    """Connect to the cluster, and carry calls."""
    line = Connection(int(descriptor))
    module, _, name = pool.partition(":")
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        found = getattr(import_module(module), name)
    except (RayError, ConnectionError, RuntimeError, ValueError, ImportError) as error:
        line.send_bytes(json.dumps({"trouble": text_of(error)}).encode())
        sys.exit(1)
    asyncio.run(serve(line, found))


if __name__ == "__main__":
    main(*sys.argv[1:])
