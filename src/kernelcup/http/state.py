"""The state that routes share."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from kernelcup.app import upkeep
from kernelcup.app.boards.trial import TaskTrial
from kernelcup.app.machines import agents
from kernelcup.app.machines.call_watch import CallWatch
from kernelcup.app.queue.dispatcher import utc_now
from kernelcup.config.settings import Config
from kernelcup.domain import OPERATOR
from kernelcup.domain.answers import CheckResult
from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError
from kernelcup.http.capacity import Room
from kernelcup.http.events.asking import Asking
from kernelcup.http.events.hub import EventHub
from kernelcup.http.steps import Steps

SECRET_VARIABLE = "KERNELCUP_SECRET"
SECRET_BYTES = 32


def documents_folder() -> Path:
    """Return where the built documentation is, or would be: in this package, else in the checkout around it."""
    packed = Path(__file__).parent / "pages" / "documents"
    checkout = Path(__file__).parents[3]
    return checkout / "site" if not packed.is_dir() and (checkout / "mkdocs.yml").is_file() else packed


@dataclass(kw_only=True)
class Platform:
    """One process of the service."""

    db: Database
    config: Config
    clock: Callable[[], datetime] = utc_now
    secret: str
    """Signs the cookies of browsers."""
    trial: TaskTrial | None = None
    """Tries tasks before their leaderboards are created; None if this machine cannot."""
    steps: Steps = field(default_factory=Steps)
    """What tries of tasks do now."""
    documents: Path = field(default_factory=documents_folder)
    """The folder of the built documentation; it need not be there."""
    hub: EventHub = field(init=False)
    asking: Asking = field(init=False)
    room: Room = field(default_factory=Room)

    def __post_init__(self) -> None:
        self.hub = EventHub(self.db, clock=self.clock)
        self.asking = Asking(CallWatch(self.db, partial(agents.to_wake, self.db)))

    def checks(self) -> list[CheckResult]:
        """Return whether what the service needs is in order."""
        url, folder = self.config.server.public_url, self.config.data_dir
        return upkeep.checks(self.db, OPERATOR, now=self.clock(), server=url, home=folder)


def cookie_secret(config: Config) -> str:
    """Return the secret that signs cookies: from the environment, else from a file, created if missing."""
    if given := given_secret(config):
        return given
    path = config.data_dir / "cookie-secret"
    found = path.read_text(encoding="ascii").strip() if path.exists() else _make_secret(path)
    if len(found) < SECRET_BYTES:
        raise ConfigError(
            f"{path}: expected at least {SECRET_BYTES} characters; delete it, and a new one is created"
        )
    return found


def given_secret(config: Config) -> str | None:
    """Return the secret of the environment, None without one. Raise ``ConfigError`` if it is too short."""
    given = config.environ.get(SECRET_VARIABLE)
    if given and len(given) < SECRET_BYTES:
        raise ConfigError(f"{SECRET_VARIABLE}: expected at least {SECRET_BYTES} characters")
    return given or None


def _make_secret(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    ours = path.with_name(f".{path.name}-{os.getpid()}")
    ours.touch(mode=0o600)
    ours.write_text(secrets.token_hex(SECRET_BYTES), encoding="ascii")
    try:
        os.link(ours, path)  # another process may have been faster: then its secret counts
    except FileExistsError:
        pass
    finally:
        ours.unlink()
    return path.read_text(encoding="ascii").strip()
