"""The rival of a duel: its import, and why a duel ends without times."""

from __future__ import annotations

from collections.abc import Callable

from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.core.requests import hello
from kernelcup_harness.protocol import DuelResult, DuelVerdict
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import Failed, FailureKind, Load, Ready, pack, unpack_any

NO_TIME = "there was no time left"
BY_WALL_CLOCK = "one of the two was timed by the wall clock"
SEVERAL_GPUS = "calls on several GPUs are not compared in turns"
MEMORY = frozenset({FailureKind.MEMORY, FailureKind.HOST_MEMORY})


class RivalFailed(Exception):
    """The rival gave a wrong answer, or none."""


class NotHeld(Exception):
    """The two could not be measured beside each other, and neither side can be blamed."""


def not_held(reason: str) -> DuelResult:
    """Return the outcome of a duel that neither side has won or lost."""
    return DuelResult(verdict=DuelVerdict.NOT_HELD, rival_message=(reason or NO_TIME)[:2_000])


def load(
    channel: Channel,
    file: str,
    import_s: float,
    remaining: Callable[[], float],
    prepare: Callable[[], None] | None = None,
) -> None:
    """Have a rival imported and prepared. Raise :class:`RivalFailed`, or :class:`NotHeld` for lack of memory or time.

    Args:
        channel: To its process.
        file: Its file.
        import_s: Most seconds of an import.
        remaining: Returns the seconds left of the stage.
        prepare: Has it prepare for each case, if the task allows it.
    """
    timeout_s = min(import_s, remaining())
    try:
        hello(channel)
        channel.send(pack(Load(file=file)), timeout_s=timeout_s)
        reply = unpack_any((Ready, Failed), channel.receive(timeout_s))
        if isinstance(reply, Ready) and prepare is not None:
            prepare()
    except CallFailed as failure:
        if failure.kind in MEMORY:
            raise NotHeld("there was not enough memory to prepare it beside the other") from failure
        raise RivalFailed(f"its `prepare` failed: {failure.text[:1000]}") from failure
    except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
        if remaining() <= 0:
            # There was less time than an import may take.
            raise NotHeld(NO_TIME) from error
        raise RivalFailed(f"it could not be imported: {error or type(error).__name__}") from error
    if isinstance(reply, Failed) and reply.kind in MEMORY:
        raise NotHeld("there was not enough memory to import it beside the other")
    if isinstance(reply, Failed):
        raise RivalFailed(f"it could not be imported: {reply.text[:1000]}")
