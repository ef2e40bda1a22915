"""The data that commands show; here it is built from a server's JSON, elsewhere from local services."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from kernelcup.domain import BoardSettings, Leaderboard, Standing, Table, Task
from kernelcup.reporting.results import JobInfo, SubmissionInfo
from kernelcup.tasks.sources.trees import is_plain
from kernelcup_harness.protocol import HarnessKind, RunReport, from_json

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardInfo(BoardSettings):
    """A leaderboard."""

    name: str
    devices: tuple[str, ...]
    harness: HarnessKind
    task_hash: str
    creator: str
    created_at: datetime
    seeds_below: int | None
    """The bound of seeds if the task has none; None for 63 bits."""
    notice: str
    """Notices for participants about changes; empty if there are none."""
    licence: str = ""
    """The licence under which people submit, of its event; empty for none."""
    notes: tuple[str, ...] = ()
    """Of a new one: how it is judged, and what its creator should know."""
    tells_review_tags: bool = False
    """A server does not reveal the review tags."""

    @classmethod
    def of(cls, board: Leaderboard) -> BoardInfo:
        """Build it from a leaderboard of this machine."""
        own = [each.name for each in dataclasses.fields(cls) if hasattr(board, each.name)]
        return cls(**{name: getattr(board, name) for name in own}, tells_review_tags=True)

    def as_object(self) -> dict[str, object]:
        """Return it as ``--json`` prints it."""
        left_out = {"notes", "tells_review_tags", *(() if self.tells_review_tags else ("review_tags",))}
        names = (each.name for each in dataclasses.fields(self) if each.name not in left_out)
        return {name: _plain(getattr(self, name)) for name in names}


def read(kind: type[T], body: Mapping[str, Any]) -> T:
    """Build a dataclass from the server's form, which may have further fields, and lack those with a default."""
    hints = _hints(cast("Any", kind))
    names = (each.name for each in dataclasses.fields(cast("Any", kind)) if each.name in body)
    return kind(**{name: _value(hints[name], body[name]) for name in names})


def read_board(body: Mapping[str, Any]) -> BoardInfo:
    """Read a leaderboard from the server's form; the review tags are not for the command line."""
    return read(BoardInfo, {name: value for name, value in body.items() if name != "review_tags"})


def read_job(body: Mapping[str, Any]) -> JobInfo:
    """Read a job from the server's form, whose score stands beside its other fields."""
    waiting = body["waiting"] or {"position": None}
    score = None if body["score_s"] is None else body
    return read(JobInfo, {**body, "position": waiting["position"], "score": score})


def read_submission(body: Mapping[str, Any]) -> SubmissionInfo:
    """Read a submission from the server's form."""
    found = read(SubmissionInfo, {**body, "jobs": ()})
    return dataclasses.replace(found, jobs=tuple(map(read_job, body["jobs"])))


def read_task(body: object) -> Task:
    """Read a task, whose names become files and a folder here. Raise ``ValueError`` for one that leads elsewhere."""
    task = Task.from_json(body)
    names = [task.name, task.submission_name, *task.sources, *task.data, *task.figures]
    if odd := [name for name in names if not is_plain(name)]:
        raise ValueError(f"the file name {odd[0]!r}")
    return task


def read_standing(body: Mapping[str, Any]) -> Standing:
    """Read a place in a ranking from the server's form."""
    return read(Standing, {**body, "score": body, "submission_id": body["submission"]})


READERS: Mapping[Any, Callable[[Any], Any]] = {
    NoneType: lambda _: None,
    Leaderboard: read_board,
    Table: partial(read, Table),
    SubmissionInfo: read_submission,
    Standing | None: lambda body: None if body is None else read_standing(body),
}
"""Readers of answers to operations in another form than what these return, by its type."""


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, value: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        kinds = [each for each in parts if each is not NoneType]
        return value if value is None or len(kinds) > 1 else _value(kinds[0], value)
    if origin in (list, tuple, Sequence):
        return (list if origin is list else tuple)(_value(parts[0], each) for each in value)
    if origin is Mapping:
        return {parts[0](name): _value(parts[1], each) for name, each in value.items()}
    if kind is Standing:
        return read_standing(value)
    if kind is RunReport:
        return from_json(RunReport, value)
    if dataclasses.is_dataclass(kind):
        return read(cast("type", kind), value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    return kind(value) if isinstance(kind, type) else value


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value
