"""A service from the files in ``deploy/`` alone: a submission is ranked, a backup restored elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compose import Network, Project
from images import DEPLOY, ROOT
from roots import Image, enclosed, run, start
from units import Host

SOLUTION = ROOT / "src/kernelcup/tasks/examples/identity/template.py"
PROXY = "10.41.0.2"
CLIENT = "10.41.0.1"
CERTIFICATE = "/etc/ssl/cup.pem"
TRUST = {"SSL_CERT_FILE": CERTIFICATE}
WAIT_S = 90.0

# Prints a submission's events as they come.
FOLLOW = """
import os, httpx
headers = {"Authorization": "Bearer " + os.environ["KERNELCUP_TOKEN"]}
address = os.environ["KERNELCUP_SERVER"] + "/api/v1/submissions/1/events"
with httpx.stream("GET", address, headers=headers, timeout=60) as answer:
    for line in answer.raise_for_status().iter_lines():
        print(line, flush=True)
"""
# Asks for what a proxy keeps away, and sends elsewhere.
ASK = """
import os, httpx
server, headers = os.environ["KERNELCUP_SERVER"], {"Authorization": "Bearer " + os.environ["KERNELCUP_TOKEN"]}
print(httpx.get(server + "/metrics").status_code)
print(httpx.post(server + "/api/v1/submissions", content=bytes(66 << 20), headers=headers, timeout=60).status_code)
print(httpx.get(server.replace("https", "http")).headers["location"])
"""


class Participant:
    """A participant with a machine of their own, which reaches the service by its proxy only."""

    def __init__(self, image: Image, host: str, token: str, *, network: str, hosts: Path) -> None:
        environ = {"KERNELCUP_SERVER": f"https://{host}", "KERNELCUP_TOKEN": token, "HOME": "/tmp", **TRUST}
        self._image = replace(image, environ={**image.environ, **environ})
        self._network = network
        self._binds = [("--ro-bind", hosts, "/etc/hosts"), ("--ro-bind", SOLUTION, "/mine.py")]

    def __call__(self, *words: str) -> str:
        """Run a command to its end."""
        command = enclosed(self._image, words, self._binds)
        return run(["nsenter", f"--net=/run/netns/{self._network}", *command])

    def submit(self, log: Path, then: Callable[[], None]) -> Any:
        """Submit, and return the standings once ``then`` had it judged. Events come as they happen."""
        self("kernelcup", "submit", "/mine.py", "--board", "identity", "--no-wait")
        words = ["python3", "-c", FOLLOW]
        follower = start(self._image, words, log, network=self._network, binds=self._binds)
        wait_for(lambda: "event: waiting" in log.read_text())
        then()
        assert follower.process.wait(WAIT_S) == 0
        assert "event: done" in log.read_text()
        standings = self.standings()
        assert [place["user"] for place in standings["standings"]["emulated"]] == ["admin"], log.read_text()
        return standings

    def standings(self) -> Any:
        """Return the standings of the leaderboard."""
        return json.loads(self("kernelcup", "standings", "identity", "--json"))

    def check_proxy(self, server_log: str, too_large: Sequence[str] = ("413",)) -> None:
        """Check what the proxy keeps away, sends on and passes on."""
        metrics, large, location = self("python3", "-c", ASK).split()
        assert metrics == "403"
        assert large in too_large
        assert location.startswith(self._image.environ["KERNELCUP_SERVER"])
        lines = [json.loads(line) for line in server_log.splitlines() if line.startswith('{"')]
        asked = [line for line in lines if line.get("route") == "/api/v1/submissions/{submission_id}/events"]
        assert [line["client"] for line in asked] == [CLIENT]  # not the proxy


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture
def networks() -> Iterator[Callable[[str], Network]]:
    made: list[Network] = []

    def make(name: str) -> Network:
        addresses = {"subnet": "10.41.0.0/24", "gateway": CLIENT, "ip_range": "10.41.0.128/25"}
        made.append(Network(name=f"{name}-{os.getpid()}", **addresses))
        return made[-1]

    yield make
    for network in made:
        network.remove()


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """The files with what an operator edits: the server's name, and devices."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    for file in (path for path in (tmp_path / "deploy").rglob("*") if path.is_file()):
        text = file.read_text().replace('"H100"', '"emulated"').replace('"cuda"', '"emulated"')
        file.write_text(text.replace("cup.example.org", "cup.localhost"))
        file.chmod(0o644)  # as git writes it, unless a umask says otherwise
    return tmp_path / "deploy"


@pytest.fixture
def trusted(images: Mapping[str, Image]) -> Callable[[Path], None]:
    """Have participants and agents trust a certificate."""

    def trust(certificate: Path) -> None:
        wait_for(certificate.exists)
        own = images["deploy/agent.Dockerfile"].root / CERTIFICATE.lstrip("/")
        shutil.copy(certificate, own)
        own.chmod(0o644)

    return trust


@contextmanager
def composed(project: Project) -> Iterator[Project]:
    try:
        yield project
    finally:
        project.stop()


def test_the_compose_files_make_a_service_whose_backup_is_restored_elsewhere(
    images: Mapping[str, Image],
    networks: Callable[[str], Network],
    edited: Path,
    trusted: Callable[[Path], None],
    tmp_path: Path,
) -> None:
    lines = (edited / "example.env").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{PROXY} cup.localhost\n")
    agent = images["deploy/agent.Dockerfile"]

    def project(name: str) -> Project:
        secrets = {key: value or os.urandom(32).hex() for key, value in values.items()}
        file, folder = edited / "compose.yaml", tmp_path / name
        return Project(file=file, folder=folder, images=images, values=secrets, network=networks(name))

    def participant(service: Project, token: str) -> Participant:
        # Caddy makes a certificate of its own for this name, and for any other one asks an authority.
        trusted(service.folder / "volumes/caddy/caddy/pki/authorities/local/root.crt")
        return Participant(
            agent, "cup.localhost", token, network=service.network.namespace("host"), hosts=hosts
        )

    with composed(project("here")) as service:
        service.up()
        published = {name: each["ports"] for name, each in service.services.items() if "ports" in each}
        assert published == {"proxy": ["80:80", "443:443", "443:443/udp"]}
        link = service.exec("server", *"kernelcup admin user link".split())
        assert "https://cup.localhost/auth/link/" in link
        secret = service.exec("server", *"kernelcup admin machines add lab-7 --own".split()).strip()
        service.exec("server", *"kernelcup board create identity --device emulated".split())
        token = service.exec("server", *"kernelcup admin token create admin".split()).strip()
        machine = Project(
            file=edited / "agent.compose.yaml",
            folder=tmp_path / "machine",
            images=images,
            values={"KERNELCUP_HOST": values["KERNELCUP_HOST"], "KERNELCUP_AGENT_TOKEN": secret},
            network=service.network,
            hosts=f"{PROXY} cup.localhost\n",
            extra=TRUST,
        )
        entrant = participant(service, token)
        with composed(machine):
            ranked = entrant.submit(tmp_path / "events", machine.up)
            doctor = machine.exec("agent", "kernelcup", "doctor", "--runner")
            assert re.search("ok +sandbox +bubblewrap", doctor), doctor
        # Caddy passes a body on while it arrives, and the server has hung up before its end.
        entrant.check_proxy(service.log("server"), too_large=("413", "502"))

        backups = service.folder / "volumes/backups"
        (first,) = backups.glob("kernelcup-*")
        os.utime(first, (0, 0))  # days pass
        service.stop("backup")
        service.up("backup")
        wait_for(lambda: len(list(backups.glob("kernelcup-*"))) == 2)
        newest = max(backups.glob("kernelcup-*"))

    with composed(project("elsewhere")) as service:
        service.up("postgres")
        service.wait("postgres", "service_healthy")
        run(["cp", "-a", str(newest), str(service.volume("backup", "backups"))])
        service.run("backup", "kernelcup", "db", "restore", f"/var/lib/kernelcup/backups/{newest.name}")
        service.up()
        assert participant(service, token).standings() == ranked


def test_the_units_make_a_service_behind_nginx_whose_backup_is_restored_elsewhere(
    images: Mapping[str, Image],
    networks: Callable[[str], Network],
    edited: Path,
    trusted: Callable[[Path], None],
    tmp_path: Path,
) -> None:
    network, units = networks("units"), edited / "systemd"
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{PROXY} cup.localhost\n")
    network.add("server", PROXY)
    image = images["deploy/agent.Dockerfile"]

    def host(name: str, where: str, image: Image, extra: Mapping[str, str]) -> Host:
        (tmp_path / name / "state").mkdir(parents=True)
        namespace = network.namespace(where)
        return Host(image=image, folder=tmp_path / name, network=namespace, hosts=hosts, extra=extra)

    server = host("server", "server", images["deploy/server.Dockerfile"], {})
    machine = host("machine", "host", image, TRUST)
    elsewhere = host("elsewhere", "host", server.image, {})
    settings = (
        (edited / "kernelcup.toml").read_text().replace(PROXY, "127.0.0.1").replace("0.0.0.0", "127.0.0.1")
    )
    (server.state / "kernelcup.toml").write_text(settings)
    (server.folder / "server.env").write_text(f"KERNELCUP_SECRET={os.urandom(32).hex()}\n")
    key = [*"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=cup.localhost".split()]
    names = ["-addext", "subjectAltName=DNS:cup.localhost"]
    run([*key, *names, "-keyout", str(tmp_path / "cup.key"), "-out", str(tmp_path / "cup.pem")])
    trusted(tmp_path / "cup.pem")
    proxy = [
        ("--ro-bind", edited / "nginx.conf", "/etc/nginx/conf.d/kernelcup.conf"),
        ("--ro-bind", tmp_path / "cup.pem", "/etc/ssl/cup.pem"),
        ("--ro-bind", tmp_path / "cup.key", "/etc/ssl/cup.key"),
    ]
    run(enclosed(images["nginx"], ["nginx", "-t"], proxy))
    nginx = start(
        images["nginx"], images["nginx"].command, tmp_path / "nginx", network=server.network, binds=proxy
    )
    service = server.start(units / "kernelcup.service")
    try:
        wait_for(lambda: "serving emulated" in service.log.read_text())
        secret = server.command(*"admin machines add lab-7 --own".split()).strip()
        (machine.folder / "agent.env").write_text(f"KERNELCUP_AGENT_TOKEN={secret}\n")
        server.command(*"board create identity --device emulated".split())
        token = server.command(*"admin token create admin".split()).strip()
        entrant = Participant(image, "cup.localhost", token, network=machine.network, hosts=hosts)
        ran = []
        ranked = entrant.submit(
            tmp_path / "events", lambda: ran.append(machine.start(units / "kernelcup-agent.service"))
        )
        entrant.check_proxy(service.log.read_text())
        ran[0].stop()
        server.run(units / "kernelcup-backup.service")
    finally:
        service.stop()
        nginx.stop()
    (copy,) = (server.state / "backups").iterdir()
    shutil.copy(copy, elsewhere.state / "copy")
    elsewhere.own_state()
    elsewhere.command("db", "restore", "/var/lib/kernelcup/copy")
    assert json.loads(elsewhere.command("standings", "identity", "--json")) == ranked
