"""What the processes of one job say to each other. Each message is a frozen dataclass; standard library only.

On the wire a message is one JSON object: its ``type``, its fields, and the ``id`` of the request. Reading is strict: a
message with an unknown, missing or mistyped field is refused. :mod:`kernelcup_harness.wire.decode` checks trees.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar, cast

from kernelcup_harness.protocol.base import ProtocolError
from kernelcup_harness.protocol.codec import Most, Raw, from_json, to_json
from kernelcup_harness.protocol.enums import Reason, StageName, Verdict
from kernelcup_harness.protocol.results import CaseResult, Finding
from kernelcup_harness.wire.channel import BrokenProtocol

MAX_TEXT = 16 << 10
Text = Annotated[str, Most(MAX_TEXT)]
Table = Annotated[str, Most(256 << 10)]
Trace = Annotated[str, Most(8 << 20)]


class Message:
    """A message; ``type`` names it on the wire."""

    __slots__ = ()
    type: ClassVar[str]


M = TypeVar("M", bound=Message)


def pack(message: Message) -> dict[str, Any]:
    """Return a message as a JSON object."""
    return {"type": message.type, **_packed(message)}


def _packed(value: Any) -> dict[str, Any]:
    found = {}
    for name, is_raw in _fields(cast("Any", type(value))):
        part = getattr(value, name)
        if not is_raw:
            part = _packed(part) if isinstance(part, InputLayout) else to_json(part)
        found[name] = part
    return found


@functools.cache
def _fields(kind: Any) -> list[tuple[str, bool]]:
    """Return the name of each field, and whether it is passed on as it is."""
    return [(each.name, "Raw" in str(each.type)) for each in fields(kind)]


def unpack(kind: type[M], frame: dict[str, Any]) -> M:
    """Return the message of a frame. Raise :class:`BrokenProtocol` for any other message."""
    if frame.get("type") != kind.type:
        raise BrokenProtocol(f"an answer of unknown type; expected {kind.type!r}")
    try:
        return from_json(kind, {name: value for name, value in frame.items() if name not in ("type", "id")})
    except (ProtocolError, RecursionError) as error:  # whose text repeats what the other side has sent
        raise BrokenProtocol(f"a malformed message of type {kind.type!r}") from error


def unpack_any(kinds: Sequence[type[Message]], frame: dict[str, Any]) -> Message:
    """Return the message of a frame, of one of these types. Raise :class:`BrokenProtocol`."""
    for kind in kinds:
        if frame.get("type") == kind.type:
            return unpack(kind, frame)
    raise BrokenProtocol("a message of unknown type")


# Between the judge and the runner


@dataclass(frozen=True, kw_only=True, slots=True)
class Dismissed(Message):
    """The runner has ended the processes that the judge no longer needs."""

    type: ClassVar[str] = "dismissed"


@dataclass(frozen=True, kw_only=True, slots=True)
class StageBegins(Message):
    """A stage begins."""

    type: ClassVar[str] = "stage"
    name: StageName
    limit_s: float
    cases: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleTaken(Message):
    """A case goes on."""

    type: ClassVar[str] = "sample"
    stage: StageName
    case: int
    samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseEnds(Message):
    """A case is finished."""

    type: ClassVar[str] = "case"
    stage: StageName
    case: CaseResult


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEnds(Message):
    """A stage is finished; ``role`` was called last, ``submission`` or ``hidden``."""

    type: ClassVar[str] = "stage_end"
    name: StageName
    verdict: Verdict
    reason: Reason
    message: str
    role: str
    met_hidden: bool
    """Whether its author may not see the message, because the submission had met hidden cases."""
    lost: bool
    """Whether the contestant's process is gone: the runner knows why."""
    used_s: float | None = None
    """Seconds spent waiting for the submission, if the stage's time was up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Phases(Message):
    """Seconds by phase."""

    type: ClassVar[str] = "phases"
    phases: dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found(Message):
    """A finding that holds the run back, however it ends."""

    type: ClassVar[str] = "finding"
    finding: Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class Dismiss(Message):
    """Asks the runner to end the processes of these roles; answered by ``dismissed``."""

    type: ClassVar[str] = "dismiss"
    roles: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class End(Message):
    """The last message."""

    type: ClassVar[str] = "end"


# From the judge to a contestant


class ArenaName(StrEnum):
    """Shared memory for calls; its descriptor comes with the message."""

    INPUTS = "inputs"
    OUTPUTS = "outputs"


@dataclass(frozen=True, kw_only=True, slots=True)
class InputLayout:
    """The form of an input: its tensors, and where they are in shared memory."""

    tree: Raw
    table: Raw
    bytes: int
    in_place: bool
    """Whether a call that returns None has written its answer into its input."""
    answer: Raw = None
    """The form of the answer, see ``Form.described``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load(Message):
    """Import the submission."""

    type: ClassVar[str] = "load"
    file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Give(Message):
    """Make the tensors of an input, which is written later."""

    type: ClassVar[str] = "give"
    slot: int
    """Which of the places for inputs."""
    layout: InputLayout
    arenas: list[ArenaName]


@dataclass(frozen=True, kw_only=True, slots=True)
class Go(Message):
    """Make one call: its input is there."""

    type: ClassVar[str] = "go"
    slot: int
    profile: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class UseNoop(Message):
    """Answer calls without computing anything, with tensors of this form, until a submission is loaded."""

    type: ClassVar[str] = "noop"
    tree: Raw
    table: Raw


@dataclass(frozen=True, kw_only=True, slots=True)
class Forget(Message):
    """Free all memory of inputs and answers."""

    type: ClassVar[str] = "forget"


# From a contestant to the judge: claims, like everything that a contestant sends


class FailureKind(StrEnum):
    """How an import or a call failed."""

    COMPILE = "compile"
    IMPORT = "import"
    EXCEPTION = "exception"
    MEMORY = "memory"
    """Of the device."""
    HOST_MEMORY = "host_memory"
    OUTPUT = "output"
    """It answered with something that cannot be carried."""
    TOO_LARGE = "too_large"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello(Message):
    """The first message of a contestant, before it imports anything, and of the timer."""

    type: ClassVar[str] = "hello"
    trouble: Text = ""
    """Why the timer cannot use the device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready(Message):
    """The submission is imported."""

    type: ClassVar[str] = "ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed(Message):
    """The submission has failed."""

    type: ClassVar[str] = "fail"
    kind: FailureKind
    text: Text


def failed(kind: FailureKind, text: str) -> Failed:
    """Return the message of a failure, with as much of the text as it may have."""
    return Failed(kind=kind, text=text[:MAX_TEXT])


@dataclass(frozen=True, kw_only=True, slots=True)
class Given(Message):
    """The tensors of an input are made."""

    type: ClassVar[str] = "given"


@dataclass(frozen=True, kw_only=True, slots=True)
class Done(Message):
    """A call has returned."""

    type: ClassVar[str] = "done"
    ns: float
    """The contestant's own time of the call, unverified."""
    tree: Raw
    table: Raw
    shared: Raw
    """Pairs of a tensor of the answer and one of the input that share memory."""
    repeated: Raw
    """Pairs of tensors of the answer that share memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiled(Message):
    """A call has been profiled."""

    type: ClassVar[str] = "profile"
    text: Table
    trace: Trace
    """Gzip in base64; empty if it is too large."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten(Message):
    """The memory is free."""

    type: ClassVar[str] = "forgotten"
