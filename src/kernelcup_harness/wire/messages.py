"""What the processes of one job say to each other. Standard library only.

On the wire a message is one JSON object: its ``type``, its fields, and the ``id`` of the request. Reading is strict: a
message with an unknown, missing or mistyped field is refused. :mod:`kernelcup_harness.wire.decode` checks trees.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform

from kernelcup_harness.protocol.base import Parameters, ProtocolError
from kernelcup_harness.protocol.codec import Most, Raw, from_json, to_json
from kernelcup_harness.protocol.enums import Reason, StageName, Verdict
from kernelcup_harness.protocol.results import CaseResult, Finding
from kernelcup_harness.wire.channel import BrokenProtocol

MAX_TEXT = 16 << 10
Text = Annotated[str, Most(MAX_TEXT)]
Table = Annotated[str, Most(256 << 10)]
Trace = Annotated[str, Most(8 << 20)]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Message:
    """A message, a frozen dataclass. ``type`` is its name on the wire."""

    type: ClassVar[str]

    def __init_subclass__(cls, name: str) -> None:
        cls.type = name
        dataclass(frozen=True, kw_only=True)(cls)


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


class Dismissed(Message, name="dismissed"):
    """The runner has ended the processes that the judge no longer needs."""


class StageBegins(Message, name="stage"):
    """A stage begins, or goes on with its hidden cases."""

    name: StageName
    limit_s: float
    cases: int
    """Number of the cases that follow now."""
    total: int
    """Number of all cases of the stage."""


class SampleTaken(Message, name="sample"):
    """A case goes on."""

    stage: StageName
    case: int
    samples: int


class CaseEnds(Message, name="case"):
    """A case is finished."""

    stage: StageName
    case: CaseResult


class StageEnds(Message, name="stage_end"):
    """A stage is finished; ``role`` was called last, ``submission`` or ``hidden``."""

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


class Phases(Message, name="phases"):
    """Seconds by phase."""

    phases: dict[str, float]


class Found(Message, name="finding"):
    """A finding that holds the run back, however it ends."""

    finding: Finding


class Dismiss(Message, name="dismiss"):
    """Asks the runner to end the processes of these roles; answered by ``dismissed``."""

    roles: list[str]


class End(Message, name="end"):
    """The last message."""


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
    """Whether a call's answer is its input afterwards, whatever it returns."""
    answer: Raw = None
    """The form of the answer, see ``Form.described``."""
    later: bool = False
    """Whether numbers and texts come with the call: until then nothing stands in their places."""


class Load(Message, name="load"):
    """Import the submission."""

    file: str


class Prepare(Message, name="prepare"):
    """Call the submission's `prepare`, if it has one, before it gets an input of a case."""

    parameters: Parameters
    """The case's, without its seed."""


class Give(Message, name="give"):
    """Make the tensors of an input, which is written later."""

    slot: int
    """Which of the places for inputs."""
    layout: InputLayout
    arenas: list[ArenaName]


class Go(Message, name="go"):
    """Make one call: its input is there."""

    slot: int
    profile: bool
    held: bool = False
    """Whether the answer waits for `take`."""
    leaves: Raw = None
    """Numbers and texts of the input in the order of its tree, if they come with the call."""


class Take(Message, name="take"):
    """Hand over the answer that waits."""

    parts: list[list[int]]
    """Offset and size in bytes of each part of the input that the judge has overwritten."""


class UseNoop(Message, name="noop"):
    """Answer calls without computing anything, with tensors of this form, until a submission is loaded."""

    tree: Raw
    table: Raw


class Forget(Message, name="forget"):
    """Free all memory of inputs and answers."""


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
    TIME = "time"
    """A replayed call did not end."""


class Hello(Message, name="hello"):
    """The first message of a contestant, before it imports anything, and of the timer."""

    trouble: Text = ""
    """Why the timer cannot use the device."""


class Ready(Message, name="ready"):
    """The submission is imported."""


class CasePrepared(Message, name="prepared"):
    """The submission is prepared for a case."""

    called: bool
    """Whether it has a `prepare`."""


class Failed(Message, name="fail"):
    """The submission has failed."""

    kind: FailureKind
    text: Text


def failed(kind: FailureKind, text: str) -> Failed:
    """Return the message of a failure, with as much of the text as it may have."""
    return Failed(kind=kind, text=text[:MAX_TEXT])


class Given(Message, name="given"):
    """The tensors of an input are made."""


class Returned(Message, name="returned"):
    """A call has returned, and its answer waits."""


class Done(Message, name="done"):
    """A call has returned."""

    ns: float
    """The contestant's own time of the call, unverified."""
    tree: Raw
    table: Raw


class Profiled(Message, name="profile"):
    """A call has been profiled."""

    text: Table
    trace: Trace
    """Gzip in base64; empty if it is too large."""


class Forgotten(Message, name="forgotten"):
    """The memory is free."""
