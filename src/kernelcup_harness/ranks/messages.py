"""What the judge of a GPU rank says to its process of the submission, beside what any judge says. Without torch."""

from __future__ import annotations

from kernelcup_harness.protocol.codec import Raw
from kernelcup_harness.wire.messages import InputLayout, Message, Text


class Split(Message, name="split"):
    """Run as many processes, one for each GPU rank; the channel of each comes with the message."""

    ranks: int


class Join(Message, name="join"):
    """Join the group of a submission's processes, see :func:`kernelcup_harness.ranks.group.join`."""

    rank: int
    world_size: int
    port: int


class Joined(Message, name="joined"):
    """The process is in the group."""


class UseGate(Message, name="gate"):
    """Map the page of the gate, and memory for answers on the device; both descriptors come with the message."""

    heap_bytes: int


class GateFound(Message, name="gate_found"):
    """Both are mapped."""

    trouble: Text = ""
    """Why they are not."""


class GivePlaced(Message, name="give_placed"):
    """Make the tensors of an input in the judge's memory on the device, which is written later."""

    layout: InputLayout
    region_bytes: int
    """Size of that memory; its descriptor comes with the message if it is another than before."""


class Queue(Message, name="queue"):
    """Queue a call behind the gate, and say where its answer will be."""

    gate: int
    """The number at which the gate opens."""
    leaves: Raw = None
    """Numbers and texts of the input in the order of its tree, if they come with the call."""


class Settle(Message, name="settle"):
    """Wait until the device has done the call that is queued; answered by `returned`."""
