"""Pages read in one transaction, so that all of a page is one state of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.orm import Session

P = ParamSpec("P")
R = TypeVar("R")


class View:
    """The transaction of a page, which its first read begins. One thread at a time reads in it."""

    def __init__(self, database: object, begin: Callable[[], Session]) -> None:
        self.database = database
        self._begin = begin
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The transaction."""
        if self._session is None:
            self._session = self._begin()
        return self._session

    def close(self) -> None:
        """End the transaction; a later read begins another."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


_view: ContextVar[View | None] = ContextVar("view", default=None)
current = _view.get


@contextmanager
def viewing(database: object, begin: Callable[[], Session]) -> Iterator[View]:
    """Give this context a view of a database, and end it."""
    view = View(database, begin)
    token = _view.set(view)
    try:
        yield view
    finally:
        _view.reset(token)
        view.close()


def end_view() -> None:
    """End the transaction of this context's view, if it has one: a later read begins another."""
    if (view := current()) is not None:
        view.close()


def ends_view(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function end the view that it reads in, in its own thread: on PostgreSQL that takes a round trip."""

    @wraps(function)
    def call(*args: P.args, **names: P.kwargs) -> R:
        try:
            return function(*args, **names)
        finally:
            end_view()

    return call


def once(query: Callable[Concatenate[Session, P], R]) -> Callable[Concatenate[Session, P], R]:
    """Have a query run once in a view, where its answer stays the same. Callers must not change the answer in place."""

    @wraps(query)
    def ask(session: Session, /, *args: P.args, **names: P.kwargs) -> R:
        known: dict[object, R] | None = session.info.get("known")
        if known is None:
            return query(session, *args, **names)
        key = (query, args, *names.items())
        if key not in known:
            known[key] = query(session, *args, **names)
        return known[key]

    return ask
