"""The state that routes share, such as the steps of a task's trial."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kernelcup.app import upkeep
from kernelcup.app.boards.judgeable import TaskTrial
from kernelcup.app.machines import agents
from kernelcup.app.machines.call_watch import CallWatch
from kernelcup.config.settings import Config
from kernelcup.domain import OPERATOR, Actor
from kernelcup.domain.answers import CheckResult
from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError
from kernelcup.http.capacity import Room
from kernelcup.http.events.asking import Asking
from kernelcup.http.events.hub import EventHub

Step = tuple[str, float]
"""What is done, and when it began, in seconds of a monotonic clock."""

utc_now = partial(datetime.now, UTC)
_maker: ContextVar[int | None] = ContextVar("maker", default=None)


class Steps:
    """What the requests of each user do that take long. Only this process knows it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: dict[int, list[Step]] = {}

    @contextmanager
    def of(self, actor: Actor) -> Iterator[None]:
        """Count what is said meanwhile, also in threads that this one waits for, as steps of a user's request."""
        reset = _maker.set(actor.user_id)
        try:
            yield
        finally:
            _maker.reset(reset)
            if actor.user_id is not None:
                self._steps.pop(actor.user_id, None)

    def say(self, text: str) -> None:
        """Begin a step of the request that is being answered."""
        if (user_id := _maker.get()) is not None:
            self._steps.setdefault(user_id, []).append((text, self._clock()))

    def latest(self, actor: Actor) -> list[tuple[str, float]]:
        """Return each step of a user's request so far, with the seconds that it took or has taken until now."""
        steps = self._steps.get(actor.user_id, []) if actor.user_id is not None else []
        ends = [*(began for _, began in steps[1:]), self._clock()]
        return [(text, end - began) for (text, began), end in zip(steps, ends, strict=True)] if steps else []


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
