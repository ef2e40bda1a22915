"""What the judge says to contestant and timer about the window, and what they reply. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar

from kernelcup_harness.protocol import RanKernel
from kernelcup_harness.protocol.codec import Most, Raw
from kernelcup_harness.window.failures import Failure
from kernelcup_harness.window.reasons import WhyNot
from kernelcup_harness.wire.messages import Message, Text

MOST_REPEATS, MOST_SERIES = 1_024, 4_096
MOST_REGIONS = 4
MOST_STRETCHES = 512
MOST_STEPS, NO_KERNEL = 64, -1
"""Steps of a cut call, and the number of a step that is a copy or a memset."""


class Access(StrEnum):
    """What the timer may do with a region."""

    READ = "ro"
    WRITE = "rw"


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedRegion:
    """A part of the window, whose descriptor comes with the message."""

    address: int
    bytes: int
    access: Access
    heap: bool = False
    """Whether the contestant allocates its tensors there."""


Regions = Annotated[list[SharedRegion], Most(MOST_REGIONS)]


# From the judge to contestant and timer, and their reply


@dataclass(frozen=True, kw_only=True, slots=True)
class Attach(Message):
    """Map regions of the window."""

    type: ClassVar[str] = "attach"
    regions: Regions


@dataclass(frozen=True, kw_only=True, slots=True)
class Attached(Message):
    """The regions are mapped, or the reason why not."""

    type: ClassVar[str] = "attached"
    why: WhyNot | None = None


# From the judge to a contestant, and its replies


@dataclass(frozen=True, kw_only=True, slots=True)
class LayInput(Message):
    """Make the tensors of an input in the window, which is written later."""

    type: ClassVar[str] = "lay_input"
    tree: Raw
    table: Raw
    in_place: bool
    answer: Raw = None
    """The form of the answer, see ``Form.described``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InputLaid(Message):
    """The tensors are made."""

    type: ClassVar[str] = "input_laid"


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Message):
    """Make one call with the input that is laid."""

    type: ClassVar[str] = "call"


@dataclass(frozen=True, kw_only=True, slots=True)
class Called(Message):
    """The call has returned."""

    type: ClassVar[str] = "called"
    ns: float
    """The contestant's own time of the call, unverified."""
    answer: Raw
    """The tree of the answer, and its table with addresses: see ``window.layout.described``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturePlaces(Message):
    """Capture a call at each place."""

    type: ClassVar[str] = "capture_places"
    tree: Raw
    tables: list[Raw]
    """One for each place."""
    in_place: bool
    answer: Raw = None
    """The form of the answer, see ``Form.described``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured(Message):
    """The calls are captured, or the reason why not."""

    type: ClassVar[str] = "captured"
    why: WhyNot | None = None
    answers: list[Raw]
    """For each place, like that of ``called``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Export(Message):
    """Write all captured graphs into the memory whose descriptor comes with the message."""

    type: ClassVar[str] = "export"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported(Message):
    """The graphs are written, or the reason why not; with both, the likely reason if their replay fails."""

    type: ClassVar[str] = "exported"
    why: WhyNot | None = None
    bytes: int


# From the judge to the timer, and its replies


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadCapture(Message):
    """Rebuild the graphs of an export, whose descriptor comes with the message, as a further capture."""

    type: ClassVar[str] = "load_capture"
    bytes: int
    cut: int | None = None
    """If given, load this graph alone, cut into steps: as many graphs as it has steps, the whole one first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded(Message):
    """The graphs are rebuilt."""

    type: ClassVar[str] = "loaded"
    nodes: Annotated[list[int], Most(MOST_SERIES)]
    """The number of nodes of the graph of each place."""
    dropped: Annotated[list[Annotated[str, Most(300)]], Most(64)]
    """Attributes that were left out."""
    ran: Annotated[list[RanKernel], Most(64)]
    """The kernels of the first graph."""
    foreign: Annotated[list[Annotated[str, Most(300)]], Most(64)]
    """Parameters that look like addresses outside of the window, and lead nowhere in the replay."""
    steps: Annotated[list[int], Most(MOST_STEPS)] = field(default_factory=list)
    """Of a cut call, for each step the number of its kernel in ``ran``, or :data:`NO_KERNEL`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fire(Message):
    """Time one place of a capture, each time with a cold cache."""

    type: ClassVar[str] = "fire"
    capture: int
    place: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FireEmpty(Message):
    """Time an empty graph: the clock's own share."""

    type: ClassVar[str] = "fire_empty"
    repeat: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Fired(Message):
    """The times of single calls, the clock's own share included; none for a call that was not ready in time."""

    type: ClassVar[str] = "fired"
    ns: Annotated[list[float], Most(MOST_REPEATS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch(Message):
    """Make calls one after another and wait for their end, with nothing of the clock beside them.

    The witness measures a single one, the judge's clock a series.
    """

    type: ClassVar[str] = "launch"
    capture: int
    places: Annotated[list[int], Most(MOST_SERIES)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile(Message):
    """Launch one call for a profiler that was started around the timer; answered by ``launched``."""

    type: ClassVar[str] = "profile_call"
    capture: int
    place: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched(Message):
    """The calls have ended."""

    type: ClassVar[str] = "launched"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check(Message):
    """Look whether a time was written again after it had been read."""

    type: ClassVar[str] = "check"


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked(Message):
    """No time was."""

    type: ClassVar[str] = "checked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused(Message):
    """The timer cannot serve a request."""

    type: ClassVar[str] = "refused"
    name: Failure
    text: Text


# From the judge to the witness, and its replies; it also sends ``refused``


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch(Message):
    """Begin to sample the device's counters."""

    type: ClassVar[str] = "watch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Watching(Message):
    """The counters are sampled."""

    type: ClassVar[str] = "watching"


@dataclass(frozen=True, kw_only=True, slots=True)
class StopWatch(Message):
    """Sample no more."""

    type: ClassVar[str] = "stop_watch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped(Message):
    """The watch has ended."""

    type: ClassVar[str] = "stopped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tell(Message):
    """Say what the device did in the last watch."""

    type: ClassVar[str] = "tell"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen(Message):
    """What the device did."""

    type: ClassVar[str] = "seen"
    stretches: Annotated[list[list[float]], Most(MOST_STRETCHES)]
    """For each stretch of activity its beginning and end by the device's timer, in nanoseconds, and its dispatches."""
