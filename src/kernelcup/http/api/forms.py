"""Schemas of requests and answers, and their construction from the domain's types."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from kernelcup.app.submissions.handout import HandedOut
from kernelcup.app.submissions.queries.events import Event
from kernelcup.domain import SETTING_TYPES
from kernelcup.errors import InvalidFiles, InvalidValue, Problem
from kernelcup.tasks.sources.submitted import ZIP_NAME, pack_texts
from kernelcup_harness.protocol import HarnessKind, Mode, ProfileOptions, Sections


class ProfileIn(BaseModel):
    """What to profile, in mode ``profile``."""

    model_config = ConfigDict(extra="forbid")

    benchmark: int | None = Field(default=None, ge=0, description="Index; default: the last one.")
    kernel: str = Field(default="", max_length=200, description="A regular expression of kernel names.")
    launches: int = Field(default=0, ge=0, le=100_000, description="Most launches; 0 for all of the call.")
    sections: Sections = Sections.FULL

    def options(self) -> ProfileOptions:
        """Return it as the harness takes it."""
        return ProfileOptions(**self.model_dump())


T = TypeVar("T")

MOST_KEYS = 100
"""Limit on keys in a request; no schema has half as many."""


def moment(parse: Callable[[str], datetime]) -> Callable[[object], object]:
    """Return a parser of times that accepts the same forms as the command line."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except InvalidValue as error:
            raise ValueError(str(error)) from error

    return read


def in_utc(value: datetime) -> datetime:
    """Return a moment in UTC. Raise ``ValueError`` outside of the years 1970 to 9999."""
    try:
        utc = value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{value.isoformat()} lies outside of the years 1970 to 9999") from error
    if utc < EARLIEST:
        raise ValueError(f"{value.isoformat()} lies outside of the years 1970 to 9999")
    return utc


EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

Moment = Annotated[AwareDatetime, AfterValidator(in_utc)]
"""A moment that every database can store and every clock can show."""


def has_nul(value: object) -> bool:
    """Return whether any text in a JSON value contains a NUL."""
    open_: list[object] = [value]
    while open_:
        match open_.pop():
            case str(text) if "\0" in text:
                return True
            case dict() as found:
                open_ += [*found.keys(), *found.values()]
            case list() as found:
                open_ += found
    return False


class Body(BaseModel):
    """A request whose texts contain no NUL, which databases reject."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_nul(cls, value: object) -> object:
        if isinstance(value, dict):
            # Code is checked where it is read.
            fields = cls.model_fields.keys() - {"code", "files"}
            odd = [key for key in value if key in fields and has_nul(value[key])]
            if odd:
                raise ValueError(f"a NUL character is not allowed, here in {', '.join(odd)}")
        return value


class Form(Body):
    """A request; unknown keys are refused, so that misspelt keys are noticed."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, value: object) -> object:
        """Refuse too many keys at once, instead of reporting an error for each unknown key."""
        if isinstance(value, dict) and len(value) > MOST_KEYS:
            raise ValueError(f"has {len(value):,} keys; at most {MOST_KEYS} are read")
        return value


class Shown(BaseModel):
    """An answer with what a service returns: its fields have the names of that object's attributes."""

    @classmethod
    def of(cls, found: object) -> Self:
        """Show an object."""
        return cls.model_validate(found, from_attributes=True)


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    next: int | None = Field(
        default=None, description="Give it as `after` for the next page; null at the end."
    )


class Done(BaseModel):
    """An answer without data: the action succeeded."""

    done: Literal[True] = True


class DetailOut(BaseModel):
    """A place where a request does not match its schema."""

    where: str = Field(examples=["query.limit"])
    text: str


class ErrorBody(BaseModel):
    """An error."""

    code: str = Field(examples=["not_found"], description="Stable, while texts may change.")
    message: str = Field(examples=["There is no leaderboard 'vectoradd'."])
    request_id: str = Field(description="Identifies the request in the server's log.")
    next: list[str] | None = Field(default=None, description="The next step.")
    problems: list[Problem] | None = Field(default=None, description="The first ten problems of a task.")
    details: list[DetailOut] | None = None
    leaderboard: str | None = Field(default=None, description="For `device_needed`: the leaderboard.")
    devices: list[str] | None = Field(
        default=None, description="For `device_needed`: the leaderboard's devices."
    )
    retry_after_s: int | None = Field(default=None, description="For `rate_limited`: when to try again.")


class ErrorOut(BaseModel):
    """The form of all errors; empty fields are left out."""

    error: ErrorBody


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut, "description": text}
    for status, text in (
        (400, "The request is not acceptable."),
        (401, "Sign-in is required, or the token is invalid."),
        (403, "This person or token may not do that, or not at this time."),
        (404, "It does not exist, or you may not see it."),
        (409, "It exists already, or conflicts with something else."),
        (413, "It is too large."),
        (422, "The request does not match its schema."),
        (429, "Too many requests; `Retry-After` gives the time to wait."),
        (503, "The service is paused, or the database does not answer; try again later."),
    )
}
"""The error answers of every route."""

TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
"""For routes that do not answer JSON. A response class would also apply to their errors."""


SHOWN_SETTINGS = {
    "opens_at": "When it opens: at its own opening, or with its event if that opens later.",
    "deadline": "When it closes: at its own deadline, or with its event if that ends earlier.",
    "after_deadline": "What is accepted after the deadline: `closed`: nothing; `unranked`: tests, benchmarks and "
    "profiles; `practice`: ranked submissions as well, in a table of their own.",
    "trust": "`replayed` or `witnessed`: times of lower levels are shown, but not ranked.",
    "duel": "Whether a new first place must win a duel against the old one.",
    "cpu_times": "Whether times of devices without a GPU rank; if not, all correct results share the first place. "
    "Times of an emulated device never rank.",
    "provider_isolation": "Whether a provider that isolates each job itself may judge ranked submissions; such "
    "results are marked.",
    "share": "Its weight among leaderboards whose jobs wait for the same GPUs.",
    "event": "The event that the leaderboard belongs to; empty for none.",
    "event_weight": "The weight of its points in the event's table.",
}
_SHOWN_FIELDS: dict[str, Any] = {
    name: (kind, Field(description=SHOWN_SETTINGS.get(name)))
    for name, kind in SETTING_TYPES.items()
    if name != "review_tags"  # they would tell cheats what to avoid
}
_SHOWN: Any = create_model("_SHOWN", **_SHOWN_FIELDS)


class LeaderboardOut(Shown, _SHOWN):  # type: ignore[misc]
    """A leaderboard."""

    name: str = Field(examples=["vectoradd"])
    devices: list[str] = Field(examples=[["H100", "MI300"]])
    harness: HarnessKind
    task_hash: str
    creator: str
    licence: str = Field(description="The licence under which people submit, of its event; empty for none.")
    notice: str = Field(description="What others see of participants contrary to the promise; usually empty.")
    discord_thread: str = Field(
        description="The number of the Discord thread that it had before it was imported; usually empty."
    )
    seeds_below: int | None = Field(
        description="Upper bound of drawn seeds if the task sets none; null: 63 bits."
    )
    created_at: datetime


class CreatedOut(LeaderboardOut):
    """A new leaderboard."""

    notes: list[str] = Field(description="How it is judged, and what its creator should know.")


class DefinitionOut(BaseModel):
    """A leaderboard's task, complete enough to write as a folder."""

    task: dict[str, Any] = Field(
        description="The task's texts, cases and limits, with the leaderboard's name and harness."
    )
    hidden_tests: int
    hidden_benchmarks: int

    @classmethod
    def of(cls, handed: HandedOut) -> DefinitionOut:
        """Show a task as participants get it."""
        return cls(
            task=dict(handed.task.to_json()),
            hidden_tests=handed.hidden_tests,
            hidden_benchmarks=handed.hidden_benchmarks,
        )


class SubmissionIn(Form):
    """A submission to make."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "leaderboard": "vectoradd",
                    "devices": ["H100"],
                    "mode": "leaderboard",
                    "file_name": "submission.py",
                    "code": "def custom_kernel(data):\n    a, b = data\n    return a + b\n",
                }
            ]
        },
    )

    leaderboard: str | None = Field(
        default=None, max_length=200, description="Default: the file's directive."
    )
    devices: list[Annotated[str, Field(max_length=100)]] = Field(default=[], max_length=50)
    mode: Mode = Mode.LEADERBOARD
    file_name: str = Field(default="submission.py", min_length=1, max_length=255)
    code: str | None = Field(default=None, description="At most 1 MiB of UTF-8; larger files get a 413.")
    files: dict[str, str] | None = Field(
        default=None,
        description="Instead of `code`: texts by plain relative path, 1 MiB in all. The entry is `submission.py` or "
        "`submission.cu`, or the file that a directive names: `#!POPCORN entry FILE`.",
    )

    zip: str | None = Field(default=None, description="Instead of `code`: a zip of the files, in base64.")

    profile: ProfileIn | None = Field(default=None, description="What to profile.")

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if sum(each is not None for each in (self.code, self.files, self.zip)) != 1:
            raise ValueError("expected one of code, files and zip")
        return self

    def content(self) -> tuple[str, bytes]:
        """Return a file's name and text, or a zip. Raise ``InvalidFiles``."""
        if self.code is not None:
            return self.file_name, self.code.encode("utf-8", "surrogatepass")
        if self.files is not None:
            return ZIP_NAME, pack_texts(self.files)
        try:
            return ZIP_NAME, base64.b64decode(self.zip or "", validate=True)
        except ValueError as error:
            raise InvalidFiles("The zip is not in base64.") from error


class EventOut(BaseModel):
    """An event of a submission."""

    id: int
    job: int | None
    at: datetime
    kind: str
    data: dict[str, Any]

    @classmethod
    def of(cls, event: Event) -> EventOut:
        """Show an event."""
        return cls(id=event.id, job=event.job_id, at=event.at, kind=event.kind, data=dict(event.data))
