"""Carries out the ``ExecStart`` of a systemd unit. ``tests/unit/test_manifests.py`` has systemd check its keys."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from roots import Container, Image, enclosed, run, start

OF_SYSTEMD = {"Type", "Delegate", "KillMode", "TimeoutStopSec", "Restart", "RestartSec"}
"""What happens around the process, and needs systemd itself."""
STATE = "/var/lib/kernelcup"


@dataclass(frozen=True, kw_only=True)
class Host:
    """A machine with a state of its own: an image's root, and a network."""

    image: Image
    folder: Path
    network: str
    hosts: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    """More of the environment."""

    @property
    def state(self) -> Path:
        """Its data directory, as it is seen from outside."""
        return self.folder / "state"

    def start(self, unit: Path) -> Container:
        """Start what a unit starts."""
        image, words = self._read(unit)
        log = self.folder / f"{unit.stem}.log"
        return start(image, words, log, network=self.network, binds=self._binds)

    def run(self, unit: Path) -> str:
        """Run what a unit runs, to its end."""
        return self._run(*self._read(unit))

    def command(self, *words: str) -> str:
        """Run a command of KernelCup's as the unit's user, with its data directory."""
        environ = {**self.extra, "PATH": "/opt/kernelcup/bin:/usr/bin:/bin", "KERNELCUP_HOME": STATE}
        return self._run(replace(self.image, user="kernelcup", environ=environ), ["kernelcup", *words])

    @property
    def _binds(self) -> list[tuple[str, Path, str]]:
        return [("--ro-bind", self.hosts, "/etc/hosts"), ("--bind", self.state, STATE)]

    def _run(self, image: Image, words: list[str]) -> str:
        return run(["nsenter", f"--net=/run/netns/{self.network}", *enclosed(image, words, self._binds)])

    def _read(self, unit: Path) -> tuple[Image, list[str]]:
        environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", **self.extra}
        found = service_of(unit)
        for key, value in found:
            if key == "Environment":
                environ |= dict([value.split("=", 1)])
            elif key == "EnvironmentFile":
                environ |= self._secrets(value)
            elif key == "StateDirectory":
                assert f"/var/lib/{value}" == STATE
                self.own_state(dict(found).get("StateDirectoryMode", "0755"))
            else:
                assert key in OF_SYSTEMD | {"User", "ExecStart", "StateDirectoryMode"}, (unit.name, key)
        (words,) = (value for key, value in found if key == "ExecStart")
        return replace(
            self.image, user=dict(found)["User"], environ=environ, workdir="/", is_confined=False
        ), shlex.split(words)

    def _secrets(self, value: str) -> dict[str, str]:
        """Return what a file in ``/etc/kernelcup`` says, which lies in the machine's folder here."""
        file = self.folder / Path(value).name
        assert value.startswith("-") or file.exists(), value
        assert Path(value.removeprefix("-")).parent == Path("/etc/kernelcup")
        lines = file.read_text().splitlines() if file.exists() else []
        return dict(line.split("=", 1) for line in lines)

    def own_state(self, mode: str = "0755") -> None:
        """Give the data directory to the service's user, as systemd does it at the start."""
        owner = run(enclosed(self.image, ["id", "-u", "kernelcup"])).strip()
        run(["chown", "-R", f"{owner}:{owner}", str(self.state)])
        self.state.chmod(int(mode, 8))


def service_of(unit: Path) -> list[tuple[str, str]]:
    """Return the keys and values of a unit's section ``[Service]``: a key may stand there more than once."""
    section, found = "", []
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.append((key, value))
    return found
