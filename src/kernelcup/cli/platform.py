"""Put the parts together for a command: configuration, database, launchers, tasks."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kernelcup.errors import InvalidValue, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelcup.config import Config
    from kernelcup.domain import Device, Task
    from kernelcup.launchers.local import LocalLauncher
    from kernelcup.services.dispatch import Dispatcher
    from kernelcup.services.progress import Progress
    from kernelcup.storage.database import Database


def load_config(path: Path | None = None) -> Config:
    """Read the configuration. Raise ``ConfigError``."""
    from kernelcup.config import Config

    return Config.load(path, os.environ)


@contextmanager
def open_database(config: Config) -> Iterator[Database]:
    """Open the database and bring its schema up to date."""
    from kernelcup.storage import schema
    from kernelcup.storage.database import Database

    if config.database_url.startswith("sqlite:///"):
        Path(config.database_url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    with Database.open(config.database_url) as db:
        schema.upgrade(db)
        yield db


def make_launcher(config: Config) -> LocalLauncher:
    """Return the launcher for this machine."""
    from kernelcup.launchers.local import LocalLauncher

    return LocalLauncher(runtime_dir=config.runtime_dir, environ=os.environ, gpus=config.slot_gpus)


def make_dispatcher(config: Config, db: Database, on_progress: Callable[[Progress], None]) -> Dispatcher:
    """Return the loop that works off the queue on this machine's devices."""
    from kernelcup.services.dispatch import Dispatcher

    launchers = {"local": make_launcher(config)}
    return Dispatcher(db, devices=config.devices, launchers=launchers, on_progress=on_progress)


def pick_device(config: Config, name: str | None) -> Device:
    """Return the device of that name, without one the best that is there."""
    if name is None:
        return config.devices[0]
    for device in config.devices:
        if device.name.lower() == name.lower():
            return device
    known = ", ".join(device.name for device in config.devices)
    raise InvalidValue(f"--device {name}: this machine has {known}")


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


def find_task(text: str) -> Task:
    """Load the task that a TASK argument means. Raise ``NotFound`` or ``InvalidTask``."""
    from kernelcup.tasks.loader import load_task

    return load_task(task_path(text))


def user_name(given: str | None) -> str:
    """Return who works here: as given, or the login name."""
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise InvalidValue("no login name was found; say who you are with --user") from None
