"""The place where a command works, if one call of a service or one request to a server is enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from kernelcup.cli.backend.base import Venue
    from kernelcup.client.api import Api
    from kernelcup.client.models import BoardInfo
    from kernelcup.config.settings import Config
    from kernelcup.storage.engine.database import Database

T = TypeVar("T")


class Place:
    """This machine's database, as its operator, or a server, as the token's user."""

    def __init__(
        self,
        venue: Venue,
        *,
        api: Api | None = None,
        db: Database | None = None,
        config: Config | None = None,
    ) -> None:
        self._venue = venue
        self._api = api
        self._db = db
        self._config = config

    @property
    def server(self) -> str | None:
        """Return the server's address, None for this machine's database."""
        return self._venue.server

    @property
    def option(self) -> str:
        """Return the option that a suggested command needs to work here: empty, or `` --server URL``."""
        return self._venue.option

    @property
    def config(self) -> Config:
        """Return this machine's configuration. Only where :attr:`server` is None."""
        assert self._config is not None
        return self._config

    def ask(self, here: Callable[[Database], T], there: Callable[[Api], T]) -> T:
        """Return the answer of the service or of the server."""
        if self._api is not None:
            return there(self._api)
        assert self._db is not None
        return here(self._db)

    def do(self, here: Callable[[Database], object], there: Callable[[Api], object]) -> None:
        """Run an action without a result."""
        self.ask(here, there)

    def board(self, name: str) -> BoardInfo:
        """Return a leaderboard. Raise ``NotFound`` with what to do next."""
        from kernelcup.cli.backend.boards import find_board

        return find_board(self._venue, name)


def path_of(*parts: object) -> str:
    """Return a path of the API from its parts. Raise ``InvalidValue`` for a part that cannot be a name."""
    from kernelcup.errors import InvalidValue

    for part in parts:
        # In a path these would lead to another resource.
        if str(part) in ("", ".", ".."):
            raise InvalidValue(f"{part!r} is not a valid name.")
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def given(**params: str | None) -> dict[str, str]:
    """Return the parameters of a request that are not None."""
    return {name: value for name, value in params.items() if value is not None}


def reader(kind: type[T]) -> Callable[[Any], T]:
    """Return a function that reads a server's JSON as a dataclass of a service, or a list of them."""
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(kind)

    def read(body: object) -> T:
        try:
            return adapter.validate_python(body)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    return read


def json_object(value: object, *names: str, **more: object) -> dict[str, Any]:
    """Return a value's attributes and extra fields as the object that ``--json`` prints."""
    from kernelcup.services.boards.changes import as_json

    facts = {name: getattr(value, name) for name in names} | more
    return {name: dict(each) if isinstance(each, Mapping) else as_json(each) for name, each in facts.items()}
