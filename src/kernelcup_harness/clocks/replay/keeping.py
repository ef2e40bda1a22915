"""What is kept of a ranked run for later jobs: the memory that its captured calls read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from kernelcup_harness.clocks.replay.kept import MOST_MEMORY_BYTES, MOST_PARTS, PAGE, Kept, Part
from kernelcup_harness.clocks.replay.mapping import Mapping
from kernelcup_harness.clocks.replay.replays import Case, Source
from kernelcup_harness.window.addresses import granules
from kernelcup_harness.window.messages import Exported


class NotKept(Exception):
    """A binary cannot be kept; the text says why."""


def memory_of(mapping: Mapping, source: Source, cases: Iterable[Case], reply: Exported) -> tuple[bytes, str]:
    """Return ``binary.memory`` of captured calls, or why it cannot be kept; neither changes a verdict.

    It is what the calls read, so it is to be taken before any of them is replayed.

    Args:
        mapping: The judge's view of the heap.
        source: The contestant.
        cases: The cases, those of other contestants among them.
        reply: What the contestant says of its heap.
    """
    if reply.live is None:
        return b"", "which of its memory is in use is not known"
    # Less than the whole heap: later jobs need room for two.
    heap = source.heap[: granules(reply.reach)]
    captured = [(each, each.kept) for each in cases if each.source is source and each.kept is not None]
    answers = [
        range(address, address + nbytes)
        for case, _ in captured
        for at in range(case.layout.places)
        for address, nbytes in case.due(at)
    ]
    try:
        mapping.settle()
        parts = parts_of(mapping, heap, reply.live, answers)
        # What a contestant says of its answers may be too deep to be written.
        return Kept(heap, [kept for _, kept in captured], parts).packed(), ""
    except (NotKept, RuntimeError) as error:
        return b"", str(error)[:500]


def parts_of(
    mapping: Mapping, heap: range, live: Sequence[Sequence[int]], answers: Iterable[range]
) -> list[Part]:
    """Return what a heap holds where tensors are in use. Raise :class:`NotKept` if that is too much.

    Args:
        mapping: The judge's view of it.
        heap: Its addresses.
        live: Address and size of each stretch in use, as the contestant says.
        answers: Addresses of the calls' answers, which each call writes again.
    """
    found, total = list[Part](), 0
    for span in without(clipped(live, heap), answers):
        view = mapping.view(span.start, len(span))
        for begin, end, is_filled in stretches(view):
            total += (end - begin) * is_filled
            if total > MOST_MEMORY_BYTES or len(found) >= MOST_PARTS:
                limit = f"{MOST_MEMORY_BYTES >> 20} MiB in {MOST_PARTS} parts"
                raise NotKept(f"its tensors hold more than {limit} beside inputs and answers")
            content = view[begin:end].cpu().numpy().tobytes() if is_filled else None
            found.append(Part(span.start + begin, end - begin, content))
    return found


def clipped(live: Sequence[Sequence[int]], heap: range) -> list[range]:
    """Return stretches in the order of their addresses, without overlaps and within a heap."""
    found: list[range] = []
    for address, nbytes in sorted((each[0], each[1]) for each in live if len(each) == 2):
        begin, end = max(address, heap.start), min(address + nbytes, heap.stop)
        if found and begin <= found[-1].stop:
            found[-1] = range(found[-1].start, max(end, found[-1].stop))
        elif begin < end:
            found.append(range(begin, end))
    return found


def without(spans: Sequence[range], holes: Iterable[range]) -> Iterator[range]:
    """Yield spans without the addresses of holes."""
    cuts = sorted(holes, key=lambda each: each.start)
    for span in spans:
        at = span.start
        for hole in cuts:
            if at < hole.stop and hole.start < span.stop:
                if at < hole.start:
                    yield range(at, hole.start)
                at = max(at, hole.stop)
        if at < span.stop:
            yield range(at, span.stop)


def stretches(view: torch.Tensor) -> Iterator[tuple[int, int, bool]]:
    """Yield begin and end of each stretch of whole pages that hold something, or zeros alone, and which it is."""
    whole = view.numel() // PAGE * PAGE
    filled = [bool(each) for each in view[:whole].view(-1, PAGE).amax(dim=1).tolist()] if whole else []
    if view.numel() > whole:
        filled.append(bool(view[whole:].any()))
    begin = 0
    for page in range(1, len(filled) + 1):
        if page == len(filled) or filled[page] is not filled[begin]:
            yield begin * PAGE, min(page * PAGE, view.numel()), filled[begin]
            begin = page
