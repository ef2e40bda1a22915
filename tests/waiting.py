"""Waiting for processes."""

from __future__ import annotations

import select


def all_end(handles: list[int], within_s: float = 100.0) -> bool:
    """Wait for the processes behind descriptors and tell whether all have ended."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    left = set(handles)
    while left:
        ended = poll.poll(within_s * 1000)
        if not ended:
            return False
        for handle, _ in ended:
            poll.unregister(handle)
            left.discard(handle)
    return True
