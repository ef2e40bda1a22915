"""Put the parts together for a command: configuration, database, launchers, tasks."""

from __future__ import annotations

import functools
import getpass
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelcup.cli import logs
from kernelcup.domain import HERE, Device, Task
from kernelcup.errors import (
    ConfigError,
    InvalidValue,
    KernelCupError,
    LaunchError,
    NotFound,
    StorageUnavailable,
)
from kernelcup_harness.protocol import Backend

if TYPE_CHECKING:
    from kernelcup.app.boards.local_trial import LocalTrial
    from kernelcup.app.queue.dispatcher import Dispatcher
    from kernelcup.app.queue.progress import Progress
    from kernelcup.config.settings import Config
    from kernelcup.engine.blobs import Blobs
    from kernelcup.engine.database import Database
    from kernelcup.launchers.base import Launcher
    from kernelcup.launchers.local.launcher import LocalLauncher
    from kernelcup.screen.kernelguard import KernelGuard


def load_config(path: Path | None = None) -> Config:
    """Read the configuration, and warn once of variables that are none of it. Raise ``ConfigError``."""
    from kernelcup.config.settings import Config, unread_variables

    for each in unread_variables(os.environ):
        logs.warn_once(each)
    return Config.load(path, os.environ)


@contextmanager
def open_database(config: Config, *, upgrade: bool = True) -> Iterator[Database]:
    """Open the database and check that its tables are this version's.

    Upgrades a SQLite file. A PostgreSQL database may serve other processes, so only
    `kernelcup db upgrade` upgrades it.

    Args:
        upgrade: False leaves the tables as they are.

    Raises:
        ConfigError: Its URL is unusable, or its tables are another version's.
        StorageUnavailable: The database cannot be reached, read or written.
    """
    from kernelcup.cli import upgrades
    from kernelcup.engine.database import Database

    logs.set_up()
    with Database.open(config.database_url, files=files_of(config)) as db:
        if upgrade:
            with refusals(db):
                upgrades.prepare(db, config)
        yield db


def files_of(config: Config) -> Blobs:
    """Return where the files beside the database lie. Raise ``ConfigError`` if that cannot be used."""
    from kernelcup.engine import blobs

    return blobs.opened(config.files_url, config.data_dir / "files")


@contextmanager
def refusals(db: Database) -> Iterator[None]:
    """Turn database errors into ``StorageUnavailable``."""
    from sqlalchemy.exc import DBAPIError

    from kernelcup.engine.database import trouble_of

    try:
        yield
    except DBAPIError as error:
        raise StorageUnavailable(f"{db.engine.url!r}: {trouble_of(db.engine.url, error.orig)}") from error


def secrets_set(config: Config) -> dict[str, bool]:
    """Return each secret's environment variable, and whether it is set."""
    names = ["KERNELCUP_SECRET", *(f"KERNELCUP_{provider.name.upper()}_SECRET" for provider in config.signin)]
    return {name: bool(config.environ.get(name)) for name in names}


AMD = re.compile(r"mi[-_]?\d{2,3}|radeon|rx[-_]?\d{4}|gfx\d", re.IGNORECASE)
"""Names of GPUs that NVIDIA's driver does not find."""


def config_warnings(config: Config) -> list[str]:
    """Return warnings about parts of a configuration that work but should be changed."""
    server = config.server
    found = []
    if not server.is_loopback and not server.public_url.startswith("https://"):
        found.append("server: reachable from elsewhere without TLS; set server.url to its https address")
    if server.processes > 1 and config.database_url.startswith("sqlite"):
        found.append("server.processes: SQLite has one writer at a time; PostgreSQL serves several better")
    if not server.is_loopback and not config.signin:
        found.append(
            "signin: neither GitHub nor Discord is configured; people sign in with links "
            "(`kernelcup admin user link`) and invite codes (`kernelcup course invite`)"
        )
    amd = [each.name for each in config.devices if each.backend is Backend.CUDA and AMD.match(each.name)]
    return [*found, *(f"devices.{each}: nothing was tried on GPUs of AMD by this version" for each in amd)]


@contextmanager
def pointing_to(hint: str, kind: type[KernelCupError]) -> Iterator[None]:
    """Add the next step to errors of that kind."""
    try:
        yield
    except kind as error:
        error.add_note(hint)
        raise


def check_devices(config: Config) -> None:
    """Raise ``ConfigError`` if this machine cannot judge on one of its configured devices.

    Called before judging starts, and by the commands that only check.
    """
    from kernelcup.launchers import installed

    known, faults = installed.names(), []
    for device in config.devices:
        where = f"{config.file}: device {device.name}"
        if device.launcher not in known:
            faults.append(f"{where}: {installed.missing(device.launcher)}")
        elif device.is_here and device.backend is Backend.CUDA and not config.has_gpu:
            faults.append(
                f"{where}: this machine has no GPU. Remove the device, or, if other machines judge, run "
                "`serve` and `config check` with --no-judge"
            )
        elif device.is_here and device.backend is Backend.CUDA and (trouble := gpu_trouble()):
            faults.append(f"{where}: {trouble}")
    if faults:
        raise ConfigError(faults)


def make_launcher(config: Config, name: str) -> Launcher:
    """Return an installed launcher. Raise ``ConfigError`` if it cannot judge."""
    from kernelcup.launchers import installed

    return installed.make(name, config)


def make_local(config: Config, say: Callable[[str], None] = lambda _text: None) -> LocalLauncher:
    """Return this machine's launcher, which can also judge and wait. Raise ``ConfigError`` if it cannot judge.

    ``say`` is told when the launcher waits for a device that another process holds.
    """
    from kernelcup.launchers.local.launcher import make

    return make(config, say=say, compilers=0)  # nothing else waits for the device meanwhile


def make_trial(config: Config, say: Callable[[str], None] = lambda _text: None) -> LocalTrial | None:
    """Return the trial that runs tasks on this machine, None if PyTorch is missing. ``say`` is told each step."""
    from kernelcup.app.boards.local_trial import LocalTrial
    from kernelcup.launchers.local.gpu_locks import Slots

    if find_spec("torch") is None:
        return None
    return LocalTrial(
        devices=config.devices_here,
        slots=Slots(config.runtime_dir, config.slot_gpus, say=say),
        launcher=functools.cache(lambda: make_local(config, say)),
        say=say,
        environ=os.environ,
        stage_budget_s=config.stage_budget_s,
    )


def describe_harness() -> dict[str, Any]:
    """Return the harness's description of this machine and its sandbox. Raise ``LaunchError``."""
    command = [sys.executable, "-P", "-m", "kernelcup_harness", "--describe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise LaunchError(f"the harness cannot be run: {error}") from error
    if not isinstance(found, dict) or "kind" not in found.get("sandbox", {}):
        raise LaunchError("the harness does not report its sandbox")
    return found


def counters_trouble() -> str:
    """Return why the judge cannot read the hardware counters of this machine's first GPU, empty if it can."""
    command = [sys.executable, "-P", "-m", "kernelcup_harness", "--counters"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return str(json.loads(done.stdout)["counters"])
    except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
        return str(error)


@functools.cache
def gpu_trouble() -> str:
    """Return why GPU jobs cannot run in this machine's sandbox, empty if they can. Raise ``LaunchError``."""
    return str(describe_harness().get("gpu_trouble", ""))


def make_dispatcher(
    config: Config,
    db: Database,
    on_progress: Callable[[Progress], None] = lambda _: None,
    *,
    serving: ExitStack | None = None,
) -> Dispatcher:
    """Return the loop that works off the queue on this machine's devices. Raise ``ConfigError``.

    Args:
        serving: Keep runners ready until the dispatcher is closed; otherwise each job starts its own.
    """
    from kernelcup.app.machines.device_clocks import misnamed
    from kernelcup.app.queue.dispatcher import Dispatcher
    from kernelcup.launchers.base import KeepsReady

    check_devices(config)
    if faults := misnamed(db, config.devices):
        where = "" if config.file is None else f"{config.file}: "
        raise ConfigError([where + each for each in faults])
    launchers = {name: make_launcher(config, name) for name in {each.launcher for each in config.devices}}
    for name, launcher in launchers.items():
        if serving is not None and isinstance(launcher, KeepsReady):
            serving.callback(launcher.close)
            launcher.keep_ready(device for device in config.devices if device.launcher == name)
    return Dispatcher(
        db,
        devices=config.devices,
        launchers=launchers,
        on_progress=on_progress,
        calibrate_every=config.calibrate_every,
        profile_share=config.profile_share,
        look=second_opinion(config),
    )


def second_opinion(config: Config) -> KernelGuard | None:
    """Return the configured second opinion for reviewers, None if there is none or it is not installed."""
    from kernelcup.screen.kernelguard import KernelGuard

    return KernelGuard.if_installed() if config.kernelguard else None


def pick_device(config: Config, name: str | None) -> Device:
    """Return this machine's device of that name; without a name, its best device."""
    known = ", ".join(device.name for device in config.devices_here) or "none"
    for device in config.devices_here:
        if name is None or device.name.lower() == name.lower():
            return device
    if name is None:
        raise ConfigError(f"{config.file}: none of its devices is on this machine (launcher = {HERE!r})")
    raise InvalidValue(f"--device {name}: this machine has {known}")


def tell_wait(config: Config, devices: Sequence[str], say: Callable[[str], None]) -> None:
    """Report which of these devices other processes hold, before the queue waits for them."""
    from kernelcup.launchers.local.gpu_locks import Slots, busy_text

    slots = Slots(config.runtime_dir, config.slot_gpus)
    for device in config.devices_here:
        if device.name in devices and not slots.free(device):
            say(busy_text(device))


def task_path(text: str) -> Path:
    """Return the path for a TASK argument, of a folder by ``kernelcup start`` that of its task.

    Raise ``NotFound``, naming the shipped tasks.
    """
    from kernelcup.tasks.folder import TASK_FILE
    from kernelcup.tasks.shipped import shipped_tasks

    path = Path(text)
    if not os.path.lexists(path / TASK_FILE) and os.path.isfile(path / "task" / TASK_FILE):
        return path / "task"
    if path.exists():
        return path
    shipped = shipped_tasks()
    if text in shipped:
        return shipped[text]
    raise NotFound(f"{text}: no such folder, file or shipped task ({', '.join(shipped)})")


def check_order(task: str, file: Path) -> None:
    """Raise ``InvalidValue`` if the submission's file is given before the task."""
    from kernelcup.tasks.folder import TASK_FILE
    from kernelcup.tasks.shipped import shipped_tasks

    # An unreadable path counts as no task here; opening it reports the error.
    is_task = os.path.isfile(file / TASK_FILE) or (not os.path.lexists(file) and str(file) in shipped_tasks())
    if is_task and os.path.isfile(task):
        raise InvalidValue(f"{task} is a file and {file} a task: the task comes first")


def find_task(text: str) -> Task:
    """Load the task for a TASK argument. Raise ``NotFound`` or ``InvalidTask``."""
    from kernelcup.tasks.loader import load_task

    return load_task(task_path(text))


def read_submission(path: Path) -> tuple[str, bytes]:
    """Return the name and the bytes of a submission, of a folder as a zip; of a file that is too large only a part.

    Raise ``NotFound`` if it cannot be read, ``InvalidFiles`` or ``FileTooLarge`` for a folder that cannot be packed.
    """
    from kernelcup.tasks.sources.submitted import LARGEST_BYTES, pack, read_folder

    name = os.fsencode(path.name).decode("utf-8", "replace")
    try:
        if path.is_dir():
            return f"{path.resolve().name}.zip", pack(read_folder(path))
        with path.open("rb") as file:
            return name, file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from error


def files_beside(path: Path) -> set[str]:
    """Return the names of the files beside a submission of one file; none beside a folder or a zip."""
    if path.is_dir() or path.suffix == ".zip":
        return set()
    return {each.name for each in path.parent.iterdir()} - {path.name}


def creator_name(db: Database, given: str | None) -> str:
    """Return a new leaderboard's owner: the given name, or the login's user."""
    from kernelcup.app.people.user_names import creator_here

    return given if given is not None else creator_here(db, user_name(None))


def user_name(given: str | None) -> str:
    """Return the local user's name: the given name, or the login name with ``-`` for characters that no name has."""
    from kernelcup.app.people.user_names import as_account_name

    if given is not None:
        return given
    try:
        return as_account_name(getpass.getuser())
    except (KeyError, OSError):
        raise InvalidValue("no login name was found; give your user name with --user") from None


ADDRESS = "address"
"""The file in the data folder that says where the running server listens, if no address is configured."""


@contextmanager
def saying_address(config: Config, url: str) -> Iterator[None]:
    """Say where the server of a data folder listens, as long as it does: its port may not be the configured one."""
    place = config.data_dir / ADDRESS
    # Without it the configured address is named: that is no reason not to serve.
    with suppress(OSError):
        place.write_text(url, encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            if place.read_text(encoding="utf-8") == url:  # not that of another server
                place.unlink()


def address_of(config: Config, say: Callable[[str], None] = lambda _text: None) -> str:
    """Return the address at which people reach the service. ``say`` is told if only this machine reaches it there."""
    from kernelcup.config.settings import reached_here

    place = config.data_dir / ADDRESS
    given = config.server.given_url
    if config.server.url is None and place.is_file():
        given = place.read_text(encoding="utf-8").strip()
    if (address := reached_here(given)) != given:
        say(
            f"server.url is not set: links begin with {address}, which only this machine reaches; set it to the "
            "address that others open"
        )
    return address
