"""Put the parts together for a command: configuration, database, launchers, tasks."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelcup.errors import (
    ConfigError,
    FileTooLarge,
    InvalidValue,
    KernelCupError,
    NotFound,
    StorageUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from kernelcup.config import Config
    from kernelcup.domain import Device, Task
    from kernelcup.launchers.base import Launcher
    from kernelcup.launchers.hygiene import Hygiene
    from kernelcup.launchers.local import LocalLauncher
    from kernelcup.services.dispatch import Dispatcher
    from kernelcup.services.progress import Progress
    from kernelcup.services.task_trial import LocalTrial
    from kernelcup.storage.database import Database

LOCAL = "local"


def load_config(path: Path | None = None) -> Config:
    """Read the configuration. Raise ``ConfigError``."""
    from kernelcup.config import Config

    return Config.load(path, os.environ)


@contextmanager
def open_database(config: Config, *, upgrade: bool = True) -> Iterator[Database]:
    """Open the database, and see to it that its tables are of this version.

    A SQLite file is upgraded on the way. A PostgreSQL database may serve other processes, so only
    `kernelcup db upgrade` changes it.

    Args:
        upgrade: False leaves the tables as they are.

    Raises:
        ConfigError: Its URL is of no use, or its tables are of another version.
        StorageUnavailable: It cannot be reached, read or written.
    """
    from kernelcup.cli import logs
    from kernelcup.storage.database import Database

    logs.set_up()
    with Database.open(config.database_url) as db:
        if upgrade:
            with refusals(db):
                prepare(db)
        yield db


def prepare(db: Database) -> None:
    """Upgrade a SQLite file; raise ``ConfigError`` for a server's database that is not up to date."""
    from kernelcup.storage import schema

    if db.engine.dialect.name == "sqlite":
        schema.upgrade(db)
        return
    current, newest = schema.current_revision(db), schema.newest_revision()
    if current != newest:
        state = "has no tables yet" if current is None else f"is at revision {current}, not {newest}"
        raise ConfigError(f"{db.engine.url!r} {state}; run: kernelcup db upgrade")


@contextmanager
def refusals(db: Database) -> Iterator[None]:
    """Turn what a database refuses into ``StorageUnavailable``."""
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        raise StorageUnavailable(f"{db.engine.url!r}: {str(error.orig).strip()}") from error


def secrets_set(config: Config) -> dict[str, bool]:
    """Tell which secrets the environment has, by the names of their variables."""
    names = ["KERNELCUP_SECRET", *(f"KERNELCUP_{provider.name.upper()}_SECRET" for provider in config.signin)]
    return {name: bool(config.environ.get(name)) for name in names}


def config_warnings(config: Config) -> list[str]:
    """Return what of a configuration works but should not stay so."""
    server = config.server
    found = []
    if not server.is_loopback and not server.public_url.startswith("https://"):
        found.append("server: reachable from elsewhere without TLS; set server.url to its https address")
    if server.processes > 1 and config.database_url.startswith("sqlite"):
        found.append("server.processes: SQLite has one writer at a time; PostgreSQL serves several better")
    if not server.is_loopback and not config.signin:
        found.append("signin: nobody can sign in by browser; accounts are made by `kernelcup admin user add`")
    return found


@contextmanager
def pointing_to(hint: str, kind: type[KernelCupError]) -> Iterator[None]:
    """Add what to do next to errors of that kind."""
    try:
        yield
    except kind as error:
        error.add_note(hint)
        raise


def check_torch() -> None:
    """Raise ``ConfigError`` without PyTorch."""
    if find_spec("torch") is None:
        raise ConfigError("judging needs PyTorch, which is not installed: pip install torch==2.13.0 numpy")


def check_devices(config: Config) -> None:
    """Raise ``ConfigError`` where this machine cannot judge on a device of its configuration.

    What starts judging asks this first, and so do the commands that only look.
    """
    from kernelcup_harness.protocol import Backend

    faults = []
    for device in config.devices:
        where = f"{config.file}: device {device.name}"
        if device.launcher != LOCAL:
            faults.append(f"{where}: no launcher {device.launcher!r}, only {LOCAL!r}")
        elif device.backend is Backend.CUDA and not config.has_gpu:
            faults.append(
                f"{where}: this machine has no GPU. Take the device out; where other machines judge, give "
                "`serve` and `config check` the option --no-judge"
            )
    if faults:
        raise ConfigError("\n".join(faults))


def make_launcher(config: Config) -> LocalLauncher:
    """Return the launcher for this machine. Raise ``ConfigError`` if it cannot judge."""
    from kernelcup.launchers.local import LocalLauncher

    check_torch()
    hygiene = make_hygiene() if config.slot_gpus else None
    return LocalLauncher(
        runtime_dir=config.runtime_dir,
        environ=os.environ,
        gpus=config.slot_gpus,
        builds=config.data_dir / "builds",
        hygiene=hygiene,
        sandbox_required=config.sandbox_required,
        pass_on=config.sandbox_environment,
        warm=config.warm,
        while_busy=config.refill_beside,
    )


def make_trial(config: Config, launcher: LocalLauncher | None = None) -> LocalTrial | None:
    """Return what tries tasks on this machine, None where PyTorch is missing."""
    from kernelcup.launchers.slots import Slots
    from kernelcup.services.task_trial import LocalTrial

    if find_spec("torch") is None:
        return None
    return LocalTrial(
        devices=[device for device in config.devices if device.launcher == LOCAL],
        slots=Slots(config.runtime_dir, config.slot_gpus),
        launcher=launcher or make_launcher(config),
        environ=os.environ,
    )


def describe_harness() -> dict[str, Any]:
    """Return what the harness says of this machine and its sandbox. Raise ``LaunchError``."""
    from kernelcup.errors import LaunchError

    command = [sys.executable, "-P", "-m", "kernelcup_harness", "--describe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise LaunchError(f"the harness cannot be asked: {error}") from error
    if not isinstance(found, dict) or "kind" not in found.get("sandbox", {}):
        raise LaunchError("the harness does not say which sandbox it has")
    return found


def make_hygiene() -> Hygiene:
    """Return what looks at this machine's GPUs before and after each job."""
    from kernelcup.launchers.gpu_probe import find_probe
    from kernelcup.launchers.hygiene import Hygiene
    from kernelcup.launchers.leftovers import sweep

    return Hygiene(find_probe(), sweep=sweep)


def make_dispatcher(
    config: Config,
    db: Database,
    on_progress: Callable[[Progress], None] = lambda _: None,
    *,
    serving: ExitStack | None = None,
) -> Dispatcher:
    """Return the loop that works off the queue on this machine's devices. Raise ``ConfigError``.

    Args:
        serving: Runners wait for jobs until it is closed; without it each job starts its own.
    """
    from kernelcup.cli.screening import second_opinion
    from kernelcup.screen.bounded import BoundedScreen
    from kernelcup.services.dispatch import Dispatcher
    from kernelcup.services.screening import is_native

    check_devices(config)
    launcher = make_launcher(config)
    if serving is not None:
        serving.callback(launcher.close)
        launcher.keep_ready(device for device in config.devices if device.launcher == LOCAL)
    launchers = {LOCAL: launcher}
    return Dispatcher(
        db,
        devices=config.devices,
        launchers=launchers,
        on_progress=on_progress,
        calibrate_every=config.calibrate_every,
        look=BoundedScreen(is_native, second_opinion=second_opinion(config)),
    )


def pick_device(config: Config, name: str | None) -> Device:
    """Return this machine's device of that name, without one the best that is there."""
    here = [device for device in config.devices if device.launcher == LOCAL]
    known = ", ".join(device.name for device in here) or "none"
    for device in here:
        if name is None or device.name.lower() == name.lower():
            return device
    if name is None:
        raise ConfigError(f"{config.file}: no device is of this machine (launcher = {LOCAL!r})")
    raise InvalidValue(f"--device {name}: this machine has {known}")


def tell_wait(launcher: Launcher, device: Device, say: Callable[[str], None]) -> None:
    """Say that a device is busy, before somebody waits for it and does not know for what."""
    if not launcher.capacity(device):
        say(f"waits for {device.name}: another process of KernelCup uses it")


def examples_folder() -> Path:
    """Return the folder of the tasks that ship."""
    return Path(str(files("kernelcup.tasks"))) / "examples"


def shipped_tasks() -> dict[str, Path]:
    """Return name to path of the tasks that ship."""
    folders = sorted(
        path for path in examples_folder().iterdir() if path.is_dir() and path.name[0] not in "._"
    )
    return {
        path.name: path / "reference_code.py" if (path / "reference_code.py").is_file() else path
        for path in folders
    }


def task_path(text: str) -> Path:
    """Return the path that a TASK argument means. Raise ``NotFound`` with what there is."""
    path = Path(text)
    if path.exists():
        return path
    shipped = shipped_tasks()
    if text in shipped:
        return shipped[text]
    raise NotFound(f"{text}: no such folder or file, and no task that ships ({', '.join(shipped)})")


def check_order(task: str, file: Path) -> None:
    """Raise ``InvalidValue`` where the file of a submission was named first, and then the task."""
    from kernelcup.tasks.folder import TASK_FILE

    # Of what cannot be looked at tells who opens it: this says no more than that it is none.
    is_task = os.path.isfile(file / TASK_FILE) or (not os.path.lexists(file) and str(file) in shipped_tasks())
    if is_task and os.path.isfile(task):
        raise InvalidValue(f"{task} is a file and {file} a task: the task comes first")


def find_task(text: str) -> Task:
    """Load the task that a TASK argument means. Raise ``NotFound`` or ``InvalidTask``."""
    from kernelcup.tasks.loader import load_task

    return load_task(task_path(text))


def read_file(path: Path) -> bytes:
    """Return the bytes of a submission, no more than are needed to see that it is too large.

    Raise ``NotFound`` if it cannot be read, ``FileTooLarge`` if it is too large.
    """
    from kernelcup.services.submit import LARGEST_FILE_BYTES

    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
    if len(content) > LARGEST_FILE_BYTES:
        raise FileTooLarge(f"{path}: a submission may have {LARGEST_FILE_BYTES:,} bytes; this has more")
    return content


def creator_name(db: Database, given: str | None) -> str:
    """Return whose a leaderboard is: as given, or whoever the login stands for."""
    from kernelcup.services.users import creator_here

    return given if given is not None else creator_here(db, user_name(None))


def user_name(given: str | None) -> str:
    """Return who works here: as given, or the login name."""
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise InvalidValue("no login name was found; say who you are with --user") from None
