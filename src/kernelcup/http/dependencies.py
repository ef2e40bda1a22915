"""Dependencies of routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Depends, Path, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from starlette.requests import HTTPConnection

from kernelcup.app.access import Entry
from kernelcup.domain import LARGEST_ID, Actor
from kernelcup.engine.database import Database
from kernelcup.http import auth
from kernelcup.http.capacity import metered
from kernelcup.http.state import Platform


async def refuse_nul(connection: HTTPConnection) -> None:
    """Raise for a path with a NUL character: no name contains one, and databases reject it."""
    if "\0" in connection.scope["path"] or b"%00" in connection.scope.get("query_string", b""):
        place = "path" if "\0" in connection.scope["path"] else "query"
        raise RequestValidationError(
            [{"type": "nul", "loc": (place,), "msg": "a NUL character is not allowed"}]
        )


# `async`, because a plain function would be called in a thread of its own, for nothing.
async def get_platform(connection: HTTPConnection) -> Platform:
    """Return the process's parts."""
    platform: Platform = connection.app.state.platform
    return platform


PlatformDep = Annotated[Platform, Depends(get_platform)]


async def get_db(platform: PlatformDep) -> Database:
    return platform.db


async def get_now(platform: PlatformDep) -> datetime:
    """Return when the request is served."""
    return platform.clock()


async def get_actor(connection: HTTPConnection) -> Actor:
    """Return the actor. Raise ``SignInNeeded`` for an invalid token."""
    if not hasattr(connection.state, "actor"):
        await run_in_threadpool(_resolve, connection)
    actor: Actor = connection.state.actor
    return actor


@metered
def _resolve(connection: HTTPConnection) -> None:
    platform: Platform = connection.app.state.platform
    connection.state.actor = auth.resolve(connection, platform.db, platform.clock())


ends_view = Database.ends_view
Db = Annotated[Database, Depends(get_db)]
Now = Annotated[datetime, Depends(get_now)]
ActorDep = Annotated[Actor, Depends(get_actor)]


async def get_entry(connection: HTTPConnection, _: ActorDep) -> Entry:
    """Return how the actor came in."""
    entry: Entry = connection.state.entry
    return entry


EntryDep = Annotated[Entry, Depends(get_entry)]
Limit = Annotated[int, Query(ge=1, le=200, description="Number of entries at most.")]
After = Annotated[
    int | None,
    Query(ge=0, le=LARGEST_ID, description="`next` of the previous page; omit it for the first page."),
]
Number = Annotated[int, Path(ge=1, le=LARGEST_ID)]
"""Of a submission, a run, a job, ...; databases fail at larger ones than any has."""
