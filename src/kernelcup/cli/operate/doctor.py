"""``kernelcup doctor``: checks what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
import platform as machine
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from kernelcup.cli import exit_codes, wiring
from kernelcup.cli.credentials import Credentials
from kernelcup.cli.operate.bot import look
from kernelcup.cli.options import ConfigOption, JsonOption
from kernelcup.cli.show.output import plain
from kernelcup.clocks import clock_words
from kernelcup.domain import TrustRule
from kernelcup.domain.answers import CheckResult, check
from kernelcup.errors import ConfigError, Forbidden, KernelCupError, LaunchError, ScopeMissing, SignInNeeded
from kernelcup_harness.protocol import Backend, TrustLevel

if TYPE_CHECKING:
    from kernelcup.client.transport import Client
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database

CLOCK_S = 5.0
"""How far clocks may differ."""
STREAM_S = 5.0


def doctor(
    as_json: JsonOption = False,
    config: ConfigOption = None,
    discord: Annotated[
        bool, typer.Option("--discord", help="Check the requirements of the Discord bot instead.")
    ] = False,
    runner: Annotated[
        bool,
        typer.Option("--runner", help="Only: which trust level will results of this machine have?"),
    ] = False,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Check the running service at this address instead."),
    ] = None,
) -> None:
    """Check what this machine lacks for judging, and show how to get it.

    Exit code 0 if submissions can be judged here (with --discord: if the bot can work; with --url: if
    nothing is broken), 4 otherwise. With --url it asks through the service's proxy, and as an admin, if
    you are signed in as one, for machines, disk and backups too.
    """
    looked = look_at_discord(config) if discord else look_around(config)
    looked = look_at_service(url) if url is not None else looked
    findings = list(look_at_runner() if runner else looked)
    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            mark = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN "}[finding.state]
            typer.echo(plain(f"{mark}  {finding.name:12} {finding.text}"))
    fit = all(finding.state == "ok" for finding in findings if finding.needed)
    raise typer.Exit(exit_codes.OK if fit else exit_codes.CONFIG_ERROR)


def look_around(config: Path | None) -> Iterator[CheckResult]:
    """Run all checks that the configuration allows."""
    yield CheckResult("python", "ok", f"{machine.python_version()} at {sys.executable}", needed=True)
    text = "judging needs it: pip install torch==2.13.0 (then, in a copy of the project, pip install '.[runner]')"
    yield package("torch", text, needed=True)
    yield package("triton", "submissions that import it will fail: pip install triton")
    yield compilers()
    yield from sandbox_and_links()
    try:
        settings = wiring.load_config(config)
    except ConfigError as error:
        yield CheckResult("config", "broken", str(error), needed=True)
        return
    where = f"from {settings.file}" if settings.file is not None else "no file, using the defaults"
    yield CheckResult("config", "ok", where, needed=True)
    yield from (gpu(settings), clocks(settings), level(settings), warm(settings), environments(settings))
    yield from stored(settings)


def look_at_runner() -> Iterator[CheckResult]:
    """Check what decides the trust level of results, in a container, a pod or on a host."""
    from kernelcup.launchers.gpu_health.probe import gpus_here

    try:
        found = wiring.describe_harness()
    except LaunchError as error:
        yield CheckResult("sandbox", "broken", str(error), needed=True)
        yield CheckResult("level", "broken", "none: nothing can be judged here", needed=True)
        return
    kind, trouble = found["sandbox"]["kind"], str(found.get("gpu_trouble", ""))
    if kind == "none":
        why = str(found["sandbox"].get("why", "no sandbox works here"))
        yield CheckResult("sandbox", "broken", why, needed=True)
        yield CheckResult("level", "broken", "none: without a sandbox nothing is ranked", needed=True)
        return
    if why := found["sandbox"].get("unranked"):
        yield CheckResult("sandbox", "broken", f"{kind}, not as root: {why}", needed=True)
        yield CheckResult("level", "broken", "none: no files of other people are ranked", needed=True)
        return
    yield CheckResult("sandbox", "ok", kind, needed=True)
    if not gpus_here():
        yield CheckResult("level", "ok", f"{TrustLevel.WALL_CLOCK}: no GPU can be seen here", needed=True)
    elif trouble:
        yield CheckResult("gpu", "broken", trouble, needed=True)
        yield CheckResult("level", "broken", "none: no GPU job can run in the sandbox", needed=True)
    elif blind := wiring.counters_trouble():
        yield CheckResult("level", "ok", f"{TrustLevel.REPLAYED}: no hardware counters: {blind}", needed=True)
    else:
        yield CheckResult("level", "ok", f"{TrustLevel.WITNESSED}: the counters can be read", needed=True)


def look_at_discord(config: Path | None) -> Iterator[CheckResult]:
    """Check the bot's tokens, its guilds, and its permissions there."""
    try:
        yield from look(wiring.load_config(config))
    except ConfigError as error:
        yield CheckResult("config", "broken", str(error), needed=True)


def look_at_service(url: str) -> Iterator[CheckResult]:
    """Check a running service as its users reach it, and what it says to admins if this user is one."""
    from kernelcup.app.upkeep import certificate
    from kernelcup.client import core
    from kernelcup.client.transport import Client

    server = core.read_server(url)
    token = Credentials.load(os.environ).token(server)
    if server.startswith("http:"):
        yield CheckResult("tls", "missing", "none: who is in between reads tokens (let a proxy do TLS)")
    yield from certificate(server, datetime.now(UTC))
    try:
        with Client(server, token) as client:
            yield from answers(client, token)
            yield from (CheckResult(**each) for each in client.request("GET", "/checks"))
    except (SignInNeeded, Forbidden, ScopeMissing):
        text = f"machines, disk and backups are shown to admins (kernelcup login {server})"
        yield CheckResult("service", "missing", text)
    except KernelCupError as error:
        yield CheckResult("service", "broken", str(error), needed=True)


def answers(client: Client, token: str | None) -> Iterator[CheckResult]:
    """Compare the clock and version of a service, and see whether events of an open stream arrive."""
    import httpx

    from kernelcup import __version__
    from kernelcup.app.status import LOOKS_BACK
    from kernelcup.client.core import trusted

    began = datetime.now(UTC)
    status = client.request("GET", "/status")
    there = datetime.fromisoformat(status["since"]) + LOOKS_BACK
    ahead_s = (there - began - (datetime.now(UTC) - began) / 2).total_seconds()
    yield check("clock", abs(ahead_s) < CLOCK_S, f"{ahead_s:+.1f} s from this machine's", "let NTP set both")
    yield check("version", True, f"{status['version']}; here it is {__version__}")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    boards = client.request("GET", "/leaderboards", params={"limit": 1})["items"]
    if not boards:
        yield check("streams", True, "not tried: you see no leaderboard")
    for board in boards:
        address = f"{client.server}/b/{quote(board['name'], safe='')}/live"
        asked, text = {"device": board["devices"][0], "since": "none"}, ""
        try:
            with httpx.stream(
                "GET", address, params=asked, headers=headers, timeout=STREAM_S, verify=trusted()
            ) as answer:
                next(answer.raise_for_status().iter_lines(), "")
        except httpx.HTTPError as error:
            text = f"no event within {STREAM_S:g} s: {error or type(error).__name__}"
        how = "a proxy collects them; nginx: proxy_buffering off"
        yield check("streams", not text, text or "the first event came while the stream was open", how)


def package(name: str, without: str, *, needed: bool = False) -> CheckResult:
    """A package of Python; its version is read without importing it."""
    try:
        return CheckResult(name, "ok", metadata.version(name), needed)
    except metadata.PackageNotFoundError:
        return CheckResult(name, "missing", without, needed)


def gpu(config: Config) -> CheckResult:
    """The devices on which this machine can judge."""
    try:
        wiring.check_devices(config)
    except ConfigError as error:
        return CheckResult("gpu", "broken", str(error), needed=True)
    real = [f"{device.name} x{device.slots}" for device in config.devices if device.backend is Backend.CUDA]
    if real:
        return CheckResult("gpu", "ok", ", ".join(real))
    return CheckResult(
        "gpu", "missing", "no NVIDIA GPU: the emulated device checks answers, but its times mean nothing"
    )


def clocks(config: Config) -> CheckResult:
    """By which clock each device times what the standard harness judges."""
    told: dict[str, list[str]] = {}
    for device in config.devices:
        told.setdefault(clock_words(device.backend), []).append(device.name)
    return CheckResult("clocks", "ok", "; ".join(f"{', '.join(names)}: {how}" for how, names in told.items()))


OPEN_COUNTERS = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/kernelcup.conf"
)


def level(config: Config) -> CheckResult:
    """The best level of times that this machine gives."""
    if not any(each.backend is Backend.CUDA and each.launcher == "local" for each in config.devices):
        return CheckResult("level", "ok", f"{TrustLevel.WALL_CLOCK}: this machine judges on no GPU")
    trouble = wiring.counters_trouble()
    if not trouble:
        return CheckResult("level", "ok", f"{TrustLevel.WITNESSED}: the GPU's hardware counters can be read")
    text = f"{TrustLevel.REPLAYED}: the GPU's hardware counters cannot be read: {trouble}"
    return CheckResult("level", "missing", f"{text} (to open them: {OPEN_COUNTERS}, then reboot)")


def warm(config: Config) -> CheckResult:
    """The number of runners that `kernelcup serve` keeps ready for jobs."""
    from kernelcup.launchers.local.warm_runners import waiting_runners

    counts = waiting_runners(config.devices_here, config.warm)
    text = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    if not text:
        text = "none: each job starts its own processes (local.warm)"
    return CheckResult("warm runners", "ok", text)


def compilers() -> CheckResult:
    """The compilers for inline C++ and CUDA."""
    absent = [name for name in ("g++", "ninja", "nvcc") if shutil.which(name) is None]
    if not absent:
        return CheckResult("compilers", "ok", "g++, ninja, nvcc")
    text = f"no {', '.join(absent)}: inline C++ or CUDA cannot be built (apt-get install g++ ninja-build; CUDA toolkit)"
    return CheckResult("compilers", "missing", text)


def sandbox_and_links() -> Iterator[CheckResult]:
    """The sandbox, as the harness finds it (an installed sandbox may not work), and what lies between the GPUs."""
    try:
        described = wiring.describe_harness()
    except LaunchError as error:
        yield CheckResult("sandbox", "broken", str(error))
        return
    yield sandbox(described)
    if between := described.get("links"):
        yield CheckResult("links", "ok", str(between))


def sandbox(described: Mapping[str, Any]) -> CheckResult:
    """Whether jobs can run in the sandbox that the harness describes."""
    found = described["sandbox"]
    missing = shutil.which("bwrap") is None
    how = "apt-get install bubblewrap" if missing else "bwrap is there but does not work"
    if found["kind"] == "none":
        text = f"user code would run with your rights, so ranked runs are refused: {how}"
        return CheckResult("sandbox", "missing", f"{text} (or [sandbox] required = false in kernelcup.toml)")
    text = f"{found['kind']}, {found['privileges']}, no network, limits by {found['limits']}"
    if why := found.get("unranked"):
        text = f"ranked runs are refused: {why}; give it bubblewrap ({how}) or root"
        return CheckResult("sandbox", "broken", text)
    if found["kind"] != "bubblewrap":
        text += (
            f"; ranked runs with hidden cases are refused; weaker than bubblewrap: {found['weaker']} ({how})"
        )
    if trouble := described.get("gpu_trouble"):
        return CheckResult("sandbox", "broken", f"{text}; GPU jobs are refused: {trouble}")
    return CheckResult("sandbox", "ok", text)


def environments(config: Config) -> CheckResult:
    """The environments of this machine."""
    from kernelcup.launchers.environments import installed

    found = [f"{each.name} {each.hash[:12]}" for each in installed(config.environments_dir)]
    return CheckResult("environments", "ok", ", ".join(["default (what pip brought)", *found]))


def stored(config: Config) -> Iterator[CheckResult]:
    """The database, and what it says of devices, leaderboards and the service."""
    from kernelcup.app import upkeep
    from kernelcup.app.machines import device_clocks, dispatchers
    from kernelcup.engine.migrate import current_revision

    now = datetime.now(UTC)
    try:
        with wiring.open_database(config) as db:
            revision = current_revision(db)
            yield CheckResult("database", "ok", f"{db.engine.url!r} (schema {revision})", needed=True)
            if faults := device_clocks.misnamed(db, config.devices):
                yield CheckResult("clocks", "broken", "; ".join(faults), needed=True)
            yield levels(config, db)
            checks = [*upkeep.look(db, now, config.data_dir), *upkeep.certificate(config.service_url, now)]
            if not dispatchers.list_servers(db, now):  # then no machine gives a sign of life
                checks = [check for check in checks if check.kind != "machine"]
            yield from (replace(check, needed=check.kind == "disk") for check in checks)
    except (KernelCupError, OSError) as error:
        yield CheckResult("database", "broken", str(error), needed=True)


def levels(config: Config, db: Database) -> CheckResult:
    """Leaderboards that require what a device of theirs cannot give, so that nothing ranks there."""
    from kernelcup.app.boards.boards import list_boards, without_gpu_of

    found = [
        f"{board.name} on {', '.join(names)}"
        for board in list_boards(db)
        if board.trust is not TrustRule.ANY and (names := without_gpu_of(board.devices, config.devices))
    ]
    if not found:
        return CheckResult("levels", "ok", "each leaderboard's devices can give what it requires")
    text = f"only replayed or witnessed times rank, and those are by the wall clock: {'; '.join(found)}"
    return CheckResult(
        "levels", "broken", f"{text} (kernelcup board update NAME --trust any, or other devices)"
    )
