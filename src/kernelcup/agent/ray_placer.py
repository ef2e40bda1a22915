"""Keeps an agent on each node of a Ray cluster: ``python -m kernelcup.agent.ray_placer``, a child of the server.

A client of Ray hangs while the cluster's head is away, and Ray ends the client's process after a minute of that. So
it is not the server's process. When its input ends, it ends, and the agents go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import RayError

from kernelcup import __version__
from kernelcup.app.machines import agents
from kernelcup.app.machines.agent_launcher import utc_now
from kernelcup.app.machines.machines import RAY, SILENT
from kernelcup.app.machines.queries import machines
from kernelcup.app.machines.queries.machines import Machine
from kernelcup.engine.database import Database
from kernelcup.launchers.ray_cluster import NAME, NAMESPACE, RESOURCE, refusal

LOOK_EVERY_S = 1.0
WATCH_S = 5.0
"""How long an actor waits for its agent's end before it answers that it goes on."""
AGAIN_S = 5.0
"""How long after an agent's end another one is started."""
HANGS_S = 30
"""A look that takes longer hangs, and ends this process: the server starts another one."""
NODE_ID = "ray.io/node-id"


@dataclass(kw_only=True, slots=True)
class _Node:
    name: str
    """The machine's."""
    actor: Any
    watch: Any
    """The answer that tells the agent's end."""
    since: float


class Placer:
    """Starts agents on nodes that join, and gives the jobs of lost ones back.

    Args:
        server: The service's address, for the agents.
        kind: The class of their actors.
    """

    def __init__(self, db: Database, server: str, kind: type) -> None:
        self._db, self._server, self._kind = db, server, kind
        self._nodes: dict[str, _Node] = {}
        self._rest_until: dict[str, float] = {}

    def look(self) -> None:
        """Look once which nodes and agents live."""
        alive = {each["NodeID"]: each["Labels"] for each in ray.nodes() if _judges(each)}
        with self._db.read() as session:
            known = {each.name: each for each in machines.every(session)}
        mine = {_node_of(each): each for each in known.values() if each.launcher == RAY}
        for node in mine.keys() - alive.keys():
            if mine[node].agent is not None:
                self._left(mine[node].name, "its node was lost")
        for node in self._nodes.keys() - alive.keys():
            del self._nodes[node]
        for node, labels in alive.items():
            if node not in self._nodes and time.monotonic() > self._rest_until.get(node, 0.0):
                self._nodes[node] = self._started(node, labels, known, alive)
        watches = [each.watch for each in self._nodes.values()]
        ready = ray.wait(watches, num_returns=len(watches), timeout=LOOK_EVERY_S)[0] if watches else []
        for node, placed in list(self._nodes.items()):
            if trouble := self._trouble(placed, mine.get(node), has_news=placed.watch in ready):
                ray.kill(placed.actor)
                del self._nodes[node]
                self._rest_until[node] = time.monotonic() + AGAIN_S
                self._left(placed.name, f"its agent has ended: {trouble}")
        if not watches:
            time.sleep(LOOK_EVERY_S)

    def _started(
        self, node: str, labels: dict[str, str], known: dict[str, Machine], alive: dict[str, Any]
    ) -> _Node:
        """Start a node's agent as a machine, unless an earlier process has."""
        actor_name = f"agent-{node}"
        name = next((each.name for each in known.values() if _node_of(each) == node), None)
        try:
            if name is None:
                raise ValueError("it is not one of our machines")
            actor = ray.get_actor(actor_name)
        except ValueError:
            name = name or _free_name(node, labels, known, alive)
            token = agents.place(
                self._db, name, labels=[f"{key}={value}" for key, value in labels.items()], now=utc_now()
            )
            actor = (
                ray.remote(self._kind)
                .options(
                    name=actor_name,
                    lifetime="detached",
                    get_if_exists=True,
                    num_cpus=0,
                    num_gpus=0,
                    resources={RESOURCE: 1},
                    max_concurrency=8,
                    label_selector={NODE_ID: node},
                )
                .remote(self._server, token, __version__)
            )
        return _Node(name=name, actor=actor, watch=self._watched(actor), since=time.monotonic())

    def _watched(self, actor: Any) -> Any:
        return actor.watch.remote(__version__, WATCH_S)

    def _trouble(self, placed: _Node, machine: Machine | None, *, has_news: bool) -> str:
        """Return why another agent has to be started, empty if the present one works."""
        if has_news:
            try:
                if trouble := ray.get(placed.watch):
                    return str(trouble)
            except RayError as error:
                return text_of(error)
            placed.watch = self._watched(placed.actor)
        seen_at = None if machine is None else machine.seen_at
        is_silent = seen_at is None or utc_now() - seen_at > SILENT
        # The service may have been away; its agents get the same time to come back.
        if is_silent and timedelta(seconds=time.monotonic() - placed.since) > SILENT:
            return f"it does not reach {self._server}"
        return ""

    def _left(self, name: str, trouble: str) -> None:
        agents.disconnect(self._db, name, agent=None, trouble=trouble, now=utc_now())


def _judges(reading: dict[str, Any]) -> bool:
    return bool(reading["Alive"]) and RESOURCE in reading["Resources"]


def _node_of(machine: Machine) -> str:
    """Return the node of a machine, empty for those that are no nodes."""
    found = (each.removeprefix(f"{NODE_ID}=") for each in machine.labels if each.startswith(NODE_ID))
    return next(found, "")


def _free_name(node: str, labels: dict[str, str], known: dict[str, Machine], alive: dict[str, Any]) -> str:
    """Return the node's own name, longer if a living node or a machine of another launcher has it."""
    name = labels.get(NAME) or node[:12]
    before = known.get(name)
    is_free = before is None or (before.launcher == RAY and _node_of(before) not in alive)
    return name if is_free else f"{name}-{node[:8]}"


def text_of(error: Exception) -> str:
    """Return an error in one line: Ray puts whole tracebacks into its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__


def main() -> None:
    """Do what the first line of the input says until the input ends. What it writes is the reason for its end."""
    output = os.dup(1)
    os.dup2(2, 1)  # Ray prints what its processes log, more than a pipe holds
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    module, _, name = order["kind"].partition(":")
    try:
        signal.alarm(HANGS_S)
        ray.init(address=order["address"], namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        with Database.open(order["database"]) as db:
            placer = Placer(db, order["server"], getattr(import_module(module), name))
            while True:
                signal.alarm(HANGS_S)
                placer.look()
    except Exception as error:  # the server writes it to its log, and starts this process again
        signal.alarm(HANGS_S)
        os.write(output, (refusal(order["address"], os.environ) or text_of(error)).encode())
        os._exit(1)  # an orderly end would wait for the cluster


if __name__ == "__main__":
    main()
