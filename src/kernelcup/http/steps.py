"""The steps of a task's trial, for the page that waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kernelcup.domain import Actor

Step = tuple[str, float]
"""What is done, and when it began, in seconds of a monotonic clock."""

_maker: ContextVar[int | None] = ContextVar("maker", default=None)


class Steps:
    """What the requests of each user do that take long. Only this process knows it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: dict[int, list[Step]] = {}

    @contextmanager
    def of(self, actor: Actor) -> Iterator[None]:
        """Count what is said meanwhile, also in threads that this one waits for, as steps of a user's request."""
        reset = _maker.set(actor.user_id)
        try:
            yield
        finally:
            _maker.reset(reset)
            if actor.user_id is not None:
                self._steps.pop(actor.user_id, None)

    def say(self, text: str) -> None:
        """Begin a step of the request that is being answered."""
        if (user_id := _maker.get()) is not None:
            self._steps.setdefault(user_id, []).append((text, self._clock()))

    def latest(self, actor: Actor) -> list[tuple[str, float]]:
        """Return each step of a user's request so far, with the seconds that it took or has taken until now."""
        steps = self._steps.get(actor.user_id, []) if actor.user_id is not None else []
        ends = [*(began for _, began in steps[1:]), self._clock()]
        return [(text, end - began) for (text, began), end in zip(steps, ends, strict=True)] if steps else []
