"""What the judge says to contestant and timer about the window, and what they reply. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from kernelcup_harness.protocol import RanKernel
from kernelcup_harness.protocol.codec import Most, Raw
from kernelcup_harness.window.graph_data import SHAPE
from kernelcup_harness.window.reasons import Failure, WhyNot
from kernelcup_harness.wire.messages import Message, Text

MOST_REPEATS, MOST_SERIES = 1_024, 4_096
MOST_REGIONS = 4
MOST_STRETCHES = 512
MOST_LIVE = 256
"""Stretches of a heap that are in use."""
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


class Attach(Message, name="attach"):
    """Map regions of the window."""

    regions: Regions


class Attached(Message, name="attached"):
    """The regions are mapped, or the reason why not."""

    why: WhyNot | None = None


# From the judge to a contestant, and its replies


class LayInput(Message, name="lay_input"):
    """Make the tensors of an input in the window, which is written later."""

    tree: Raw
    table: Raw
    in_place: bool
    answer: Raw = None
    """The form of the answer, see ``Form.described``."""


class InputLaid(Message, name="input_laid"):
    """The tensors are made."""


class Call(Message, name="call"):
    """Make one call with the input that is laid."""


class Called(Message, name="called"):
    """The call has returned."""

    ns: float
    """The contestant's own time of the call, unverified."""
    answer: Raw
    """The tree of the answer, and its table with addresses: see ``window.layout.described``."""


class CapturePlaces(Message, name="capture_places"):
    """Capture a call at each place."""

    tree: Raw
    tables: list[Raw]
    """One for each place."""
    in_place: bool
    answer: Raw = None
    """The form of the answer, see ``Form.described``."""


class Captured(Message, name="captured"):
    """The calls are captured, or the reason why not."""

    why: WhyNot | None = None
    answers: list[Raw]
    """For each place, like that of ``called``."""


class Export(Message, name="export"):
    """Write all captured graphs into the memory whose descriptor comes with the message."""


class Exported(Message, name="exported"):
    """The graphs are written, or the reason why not; with both, the likely reason if their replay fails."""

    why: WhyNot | None = None
    bytes: int
    live: Annotated[list[list[int]], Most(MOST_LIVE)] | None = None
    """Address and size of each stretch of its heap in which tensors are in use; None if that is not known."""
    reach: int = 0
    """Bytes of the heap up to the end of what was ever in use."""


# From the judge to the timer, and its replies


class LoadCapture(Message, name="load_capture"):
    """Rebuild the graphs of an export, whose descriptor comes with the message, as a further capture."""

    bytes: int
    cut: int | None = None
    """If given, load this graph alone, cut into steps: as many graphs as it has steps, the whole one first."""


class Loaded(Message, name="loaded"):
    """The graphs are rebuilt."""

    nodes: Annotated[list[int], Most(MOST_SERIES)]
    """The number of nodes of the graph of each place that do something, with those of child graphs."""
    shapes: Annotated[list[Annotated[str, Most(SHAPE)]], Most(MOST_SERIES)]
    """What the graphs have in common that do the same with other memory."""
    dropped: Annotated[list[Annotated[str, Most(300)]], Most(64)]
    """Attributes that were left out."""
    ran: Annotated[list[RanKernel], Most(64)]
    """The kernels of the first graph."""
    foreign: Annotated[list[Annotated[str, Most(300)]], Most(64)]
    """Parameters that look like addresses outside of the window, and lead nowhere in the replay."""
    steps: Annotated[list[int], Most(MOST_STEPS)] = field(default_factory=list)
    """Of a cut call, for each step the number of its kernel in ``ran``, or :data:`NO_KERNEL`."""


class Fire(Message, name="fire"):
    """Time one place of a capture, each time with a cold cache."""

    capture: int
    place: int


class FireEmpty(Message, name="fire_empty"):
    """Time an empty graph: the clock's own share."""

    repeat: int = 1


class Fired(Message, name="fired"):
    """The times of single calls, the clock's own share included; none for a call that was not ready in time."""

    ns: Annotated[list[float], Most(MOST_REPEATS)]


class Launch(Message, name="launch"):
    """Make calls one after another and wait for their end, with nothing of the clock beside them.

    The witness measures a single one, the judge's clock a series.
    """

    capture: int
    places: Annotated[list[int], Most(MOST_SERIES)]


class Profile(Message, name="profile_call"):
    """Launch one call for a profiler that was started around the timer; answered by ``launched``."""

    capture: int
    place: int


class Launched(Message, name="launched"):
    """The calls have ended."""


class Check(Message, name="check"):
    """Look whether a time was written again after it had been read."""


class Checked(Message, name="checked"):
    """No time was."""


class Refused(Message, name="refused"):
    """The timer cannot serve a request."""

    name: Failure
    text: Text


# From the judge to the witness, and its replies; it also sends ``refused``


class Watch(Message, name="watch"):
    """Begin to sample the device's counters."""


class Watching(Message, name="watching"):
    """The counters are sampled."""


class StopWatch(Message, name="stop_watch"):
    """Sample no more."""


class Stopped(Message, name="stopped"):
    """The watch has ended."""


class Tell(Message, name="tell"):
    """Say what a device did in the last watch."""

    device: int = 0


class Seen(Message, name="seen"):
    """What the device did."""

    stretches: Annotated[list[list[float]], Most(MOST_STRETCHES)]
    """For each stretch of activity its beginning and end by the device's timer, in nanoseconds, and its dispatches."""
    copies: Annotated[list[list[float]], Most(MOST_STRETCHES)] = field(default_factory=list)
    """For each copy without a multiprocessor its beginning and its end, where links are watched."""
