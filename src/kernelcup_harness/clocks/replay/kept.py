"""A kept binary: the captured calls of an accepted run and the memory that they read, for later jobs.

``binary.kcgraph`` is what the contestant exported; ``binary.memory`` is a line of JSON with the form of the cases and
the place of each part of the heap, then the bytes of these parts. In a later job :class:`KeptLine` answers in the
contestant's place. Inputs are new there, and each answer is checked as that of a submission's process is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelcup_harness.clocks.replay.mapping import Mapping
from kernelcup_harness.core.requests import Line
from kernelcup_harness.protocol.profiles import BINARY, MEMORY
from kernelcup_harness.protocol.spec import KeptBinary
from kernelcup_harness.window.layout import HEAPS
from kernelcup_harness.window.messages import Attach, Attached, Captured, CapturePlaces, Export, Exported
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire.messages import M, Message

FORM = 1
"""Of ``binary.memory``; others are not read."""
PAGE = 64 << 10
"""Memory is kept or left out in blocks of this many bytes: a block of zeros is written as zeros."""
MOST_PARTS = 256
MOST_MEMORY_BYTES = 64 << 20
"""Most bytes of a heap that are kept, those with zeros left out."""
MOST_UNPACKED_BYTES = 256 << 20
SLOTS = (HEAPS["submission"], HEAPS["rival"])
"""Where a heap may lie: a submission that meets a kept binary gets the other one, so that both stay where they are."""


class BinaryUnfit(NotReplayed):
    """A kept binary cannot be replayed in this job.

    Args:
        why: The reason.
        wrong: Whether it answered new inputs wrongly.
    """

    def __init__(self, why: str, *, wrong: bool = False) -> None:
        super().__init__(WhyNot.UNKNOWN, why)
        self.wrong = wrong

    @property
    def text(self) -> str:
        """The reason alone."""
        return self.detail


def wrong(fault: str) -> BinaryUnfit:
    """Return the refusal of a binary that answers a new input wrongly."""
    return BinaryUnfit(f"it answers a new input wrongly: {fault[:500]}", wrong=True)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a heap: what it holds, None for zeros."""

    address: int
    nbytes: int
    content: bytes | None


@dataclass(slots=True)
class KeptCase:
    """The captured calls of a case: the form of its input at each place, and where the answers are."""

    form: Any
    answers: list[Any]


@dataclass(slots=True)
class Kept:
    """A kept binary, or one in the making."""

    heap: range
    cases: list[KeptCase] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    graph: bytes = b""

    def packed(self) -> bytes:
        """Return ``binary.memory``."""
        head = {
            "form": FORM,
            "heap": [self.heap.start, len(self.heap)],
            "cases": [[each.form, each.answers] for each in self.cases],
            "parts": [[each.address, each.nbytes, each.content is None] for each in self.parts],
        }
        content = [each.content for each in self.parts if each.content is not None]
        return b"".join([json.dumps(head, separators=(",", ":")).encode(), b"\n", *content])


def form_of(request: CapturePlaces) -> Any:
    """Return the form of a case's input as JSON has it: trees, tables and addresses of all places."""
    return json.loads(json.dumps([request.tree, request.tables, request.in_place]))


def read(binary: KeptBinary) -> Kept:
    """Read the files of a binary. Raise :class:`BinaryUnfit` if they are damaged."""
    files = {each.name: each for each in binary.files}
    if missing := [name for name in (BINARY, MEMORY) if name not in files]:
        raise BinaryUnfit(f"{missing[0]} is missing")
    content = {}
    for name in (BINARY, MEMORY):
        try:
            content[name] = unpacked(files[name].gz64)
        except (ValueError, zlib.error) as error:
            raise BinaryUnfit(f"{name} is damaged") from error
        if hashlib.sha256(content[name]).hexdigest() != files[name].sha256:
            raise BinaryUnfit(f"{name} is not the file of that run")
    try:
        kept = parsed(content[MEMORY])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BinaryUnfit(f"{MEMORY} cannot be read") from error
    kept.graph = content[BINARY]
    return kept


def unpacked(gz64: str) -> bytes:
    """Return the content of a kept file. Raise ``ValueError`` or ``zlib.error``."""
    machine = zlib.decompressobj(wbits=31)
    found = machine.decompress(base64.b64decode(gz64, validate=True), MOST_UNPACKED_BYTES)
    if not machine.eof:
        raise ValueError("it is too long, or cut off")
    return found


def parsed(data: bytes) -> Kept:
    """Return the content of ``binary.memory``. Raise ``ValueError``, ``TypeError`` or ``KeyError``."""
    text, _, content = data.partition(b"\n")
    head = json.loads(text)
    address, nbytes = head["heap"]
    heap = range(address, address + nbytes)
    if head["form"] != FORM or address not in SLOTS or not 0 < nbytes <= SLOTS[1] - SLOTS[0]:
        raise ValueError("another form")
    kept, at = Kept(heap, [KeptCase(form, list(answers)) for form, answers in head["cases"]]), 0
    for begin, size, is_zero in head["parts"]:
        if begin not in heap or not 0 < size <= heap.stop - begin:
            raise ValueError("memory outside of the heap")
        kept.parts.append(Part(begin, size, None if is_zero else content[at : at + size]))
        at += 0 if is_zero else size
    if at != len(content):
        raise ValueError("cut off")
    return kept


class KeptLine(Line):
    """Answers the judge's requests about the window in the place of a contestant.

    Args:
        kept: The binary.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.waited_s = 0.0
        self.other: KeptLine | None = None
        """The other side, if its heap is at the same addresses: then the memory is shared, by turns."""
        self.lent: int | None = None
        """A descriptor of the other side's heap, if this side uses it."""
        self._next = 0

    def ask(
        self,
        request: Message,
        expected: type[M],
        *,
        timeout_s: float,  # noqa: ARG002 - of processes
        fds: Sequence[int] = (),
    ) -> M:
        """Answer from what is kept. Raise :class:`BinaryUnfit` for a case of another form."""
        reply: Message
        if isinstance(request, Attach):
            reply = Attached()
        elif isinstance(request, CapturePlaces):
            reply = Captured(answers=self._answers(request))
        else:
            assert isinstance(request, Export)
            if self._next != len(self.kept.cases):
                raise BinaryUnfit("it has other cases")
            os.pwrite(fds[0], self.kept.graph, 0)
            reply = Exported(bytes=len(self.kept.graph))
        assert isinstance(reply, expected)
        return reply

    def _answers(self, request: CapturePlaces) -> list[Any]:
        cases = self.kept.cases[self._next : self._next + 1]
        if not cases or cases[0].form != form_of(request):
            raise BinaryUnfit("its inputs differ in form from those of that run")
        self._next += 1
        return cases[0].answers

    def memory(self, mapping: Mapping) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
        """Return each part of its heap, and what it has to hold before a call; None for zeros."""
        found = list[tuple[torch.Tensor, torch.Tensor | None]]()
        for part in self.kept.parts:
            view = mapping.view(part.address, part.nbytes)
            content = None
            if part.content is not None:
                content = torch.frombuffer(bytearray(part.content), dtype=torch.uint8).to(view.device)
            found.append((view, content))
        return found
