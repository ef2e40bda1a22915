"""Carries out a compose file: the services in their order, each in a root and a network namespace of its own."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from roots import Container, Image, enclosed, run, start
from ruamel.yaml import YAML

KNOWN = frozenset(
    "build image command environment volumes networks ports healthcheck depends_on init restart "
    "stop_grace_period security_opt gpus shm_size".split()
)
"""Of a service. Nothing ends by itself here, and no filter refuses system calls; no GPU is there."""
UNCONFINED = ["seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"]
READY_S = 90.0


@dataclass(kw_only=True)
class Network:
    """A bridge and what hangs on it. The bridge's own namespace is the host's of all containers."""

    name: str
    subnet: str
    gateway: str
    ip_range: str
    addresses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        host = self.namespace("host")
        run(["ip", "netns", "add", host])
        length = self.subnet.partition("/")[2]
        self._ip(host, "link set lo up")
        self._ip(host, "link add bridge type bridge")
        self._ip(host, f"address add {self.gateway}/{length} dev bridge")
        self._ip(host, "link set bridge up")

    def namespace(self, service: str) -> str:
        """Return the name of a service's network namespace."""
        return f"{self.name}-{service}"

    def add(self, service: str, address: str | None) -> None:
        """Give a service a namespace with an address, by default the first free one of the range, as Docker does."""
        taken = {self.gateway, *self.addresses.values()}
        address = address or next(
            str(each) for each in ip_network(self.ip_range).hosts() if str(each) not in taken
        )
        assert address not in taken, f"{service}: {address} is in use"
        self.addresses[service] = address
        own, port = self.namespace(service), f"p{len(self.addresses)}"
        run(["ip", "netns", "add", own])
        self._ip(self.namespace("host"), f"link add {port} type veth peer name eth0 netns {own}")
        self._ip(self.namespace("host"), f"link set {port} master bridge up")
        self._ip(own, f"address add {address}/{self.subnet.partition('/')[2]} dev eth0")
        self._ip(own, "link set eth0 up")
        self._ip(own, "link set lo up")

    def remove(self) -> None:
        """Remove all namespaces, and with them what hangs on them."""
        for service in ("host", *self.addresses):
            subprocess.run(["ip", "netns", "delete", self.namespace(service)], check=False)

    def _ip(self, namespace: str, words: str) -> None:
        run(["ip", "-netns", namespace, *words.split()])


def filled(value: Any, values: Mapping[str, str]) -> Any:
    """Return a part of a compose file with its variables, as Compose puts them in."""
    if isinstance(value, dict):
        return {name: filled(part, values) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, values) for part in value]
    if not isinstance(value, str):
        return value

    def text(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        assert values.get(name) or kind == ":-", f"{name}: {rest}"
        return values.get(name) or rest

    replaced = re.sub(r"(?<!\$)\$\{(\w+)(:[?-])([^}]*)\}", text, value)
    assert not re.search(r"(?<!\$)\$(?!\$)", replaced), "a variable without {}"
    return replaced.replace("$$", "$")


@dataclass(kw_only=True)
class Project:
    """A compose file with its volumes, its network and its containers."""

    file: Path
    folder: Path
    """For volumes and logs."""
    images: Mapping[str, Image]
    """By what a service names as its image, or as its Dockerfile."""
    values: Mapping[str, str]
    network: Network
    hosts: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    """More of the environment."""
    containers: dict[str, Container] = field(default_factory=dict)

    def __post_init__(self) -> None:
        content = filled(YAML(typ="safe").load(self.file), self.values)
        assert content.keys() <= {"name", "services", "networks", "volumes"}
        self.services: dict[str, dict[str, Any]] = content["services"]
        self.volumes = content["volumes"]
        (self.folder / "volumes").mkdir(parents=True)
        for name, service in self.services.items():
            assert service.keys() <= KNOWN, (name, service.keys() - KNOWN)
            assert service.get("security_opt", UNCONFINED) == UNCONFINED
            for network, settings in dict_of(service.get("networks", [])).items():
                own = {name: getattr(self.network, name) for name in ("subnet", "gateway", "ip_range")}
                assert content["networks"][network]["ipam"]["config"] == [own]
                self.network.add(name, (settings or {}).get("ipv4_address"))

    def up(self, *names: str) -> None:
        """Start services, by default all of them, after those that they depend on."""
        for name in names or self.services:
            self._start(name)

    def exec(self, service: str, *words: str, given: str = "") -> str:
        """Run a command beside a service."""
        return self.containers[service].run(*words, given=given)

    def run(self, service: str, *words: str) -> str:
        """Run a command in place of a service's own."""
        image, binds = self._image(service), list(self._binds(service))
        namespace = f"--net=/run/netns/{self._namespace(service)}"
        return run(["nsenter", namespace, *enclosed(image, words, binds)])

    def volume(self, service: str, name: str) -> Path:
        """Return a volume's folder. A new one begins with what the service's image has there, owner and all."""
        assert name in self.volumes
        (target,) = (
            each.split(":")[1] for each in self.services[service]["volumes"] if each.startswith(f"{name}:")
        )
        folder = self.folder / "volumes" / name
        if not folder.exists():
            content = self._image(service).root / target.lstrip("/")
            content.mkdir(parents=True, exist_ok=True)
            run(["cp", "-a", str(content), str(folder)])
        return folder

    def log(self, service: str) -> str:
        """Return what a service has said."""
        return self.containers[service].log.read_text()

    def stop(self, *names: str) -> None:
        """Stop services, by default all of them, in the order opposite to that of their start."""
        for name in names or list(reversed(self.containers)):
            self.containers.pop(name).stop()

    def _start(self, name: str) -> None:
        if name in self.containers:
            return
        service = self.services[name]
        for other, condition in service.get("depends_on", {}).items():
            self._start(other)
            self.wait(other, condition["condition"])
        image = self._image(name)
        self.containers[name] = start(
            image,
            service.get("command") or image.command,
            self.folder / f"{name}.log",
            network=self._namespace(name),
            binds=list(self._binds(name)),
            init=service.get("init", False),
        )

    def wait(self, name: str, condition: str) -> None:
        """Wait for a service, as one that depends on it does."""
        container, until = self.containers[name], time.monotonic() + READY_S
        if condition == "service_completed_successfully":
            assert container.process.wait(READY_S) == 0, self.log(name)
            return
        assert condition == "service_healthy"
        how, *words = self.services[name]["healthcheck"]["test"]
        assert how == "CMD"
        while True:
            try:
                self.exec(name, *words)
                return
            except AssertionError:
                assert container.process.poll() is None, self.log(name)
                assert time.monotonic() < until, self.log(name)
                time.sleep(0.5)

    def _image(self, name: str) -> Image:
        service = self.services[name]
        build = service.get("build")
        if build is not None:
            assert build.keys() == {"context", "dockerfile"}
            assert build["context"] == ".."
        image = self.images[build["dockerfile"] if build else service["image"]]
        environ = {**image.environ, **self.extra, **service.get("environment", {})}
        return replace(image, environ=environ, is_confined="security_opt" not in service)

    def _namespace(self, service: str) -> str:
        # Without a network of the file's a service has one of its own, from where it reaches the host's ports.
        return self.network.namespace(service if service in self.network.addresses else "host")

    def _binds(self, service: str) -> Iterator[tuple[str, Path, str]]:
        hosts = self.folder / "hosts"
        names = "".join(f"{address} {name}\n" for name, address in self.network.addresses.items())
        hosts.write_text(f"127.0.0.1 localhost\n{self.hosts}{names}")
        yield "--ro-bind", hosts, "/etc/hosts"
        image = self._image(service)
        for volume in self.services[service].get("volumes", []):
            source, target, *mode = volume.split(":")
            if source.startswith("./"):
                # For others to read, which it would not be if bubblewrap made it.
                (image.root / target.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                yield "--ro-bind" if mode == ["ro"] else "--bind", self.file.parent / source, target
                continue
            yield "--bind", self.volume(service, source), target


def dict_of(names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be given as names only as a dictionary."""
    return dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
