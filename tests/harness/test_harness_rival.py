"""The import of a rival, and whose fault it is if it fails."""

from __future__ import annotations

from typing import Any

import pytest

from kernelcup_harness.clocks.replay.rival import NotHeld, RivalFailed, load
from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import FailureKind


class Contestant:
    """A channel whose other end answers with these frames, or fails."""

    def __init__(self, *replies: dict[str, Any] | Exception) -> None:
        self.has_greeted, self.sent, self._replies = False, list[dict[str, Any]](), list(replies)

    def send(self, frame: dict[str, Any], timeout_s: float) -> None:
        assert timeout_s > 0
        self.sent.append(frame)

    def receive(self, _timeout_s: float) -> dict[str, Any]:
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def loaded(channel: Any, *left_s: float) -> None:
    """Import the rival; the stage has so many seconds left, asked one after the other."""
    left = list(left_s or (5.0, 5.0))
    load(channel, "rival.py", 5.0, lambda: left.pop(0))


def test_a_rival_is_imported_once_it_has_said_hello() -> None:
    channel: Any = Contestant({"type": "hello"}, {"type": "ready"})
    loaded(channel)
    assert channel.sent == [{"type": "load", "file": "rival.py"}]
    assert channel.has_greeted


@pytest.mark.parametrize(
    "replies",
    [
        [{"type": "ready"}],
        [{"type": "hello", "trouble": 1}],
        [{"type": "hello"}, {"type": "given"}],
        [{"type": "hello"}, {"type": "fail", "kind": "import", "text": "no"}],
        [{"type": "hello"}, ChannelTimeout()],
        [{"type": "hello"}, ChannelClosed("end of stream")],
        [BrokenProtocol("no frame")],
    ],
)
def test_a_rival_that_does_not_say_that_it_is_ready_has_failed(replies: list[Any]) -> None:
    with pytest.raises(RivalFailed, match="could not be imported"):
        loaded(Contestant(*replies))


def test_a_rival_prepares_after_its_import_and_before_the_duel() -> None:
    channel: Any = Contestant({"type": "hello"}, {"type": "ready"})
    met: list[list[str]] = []
    load(channel, "rival.py", 5.0, lambda: 5.0, lambda: met.append([each["type"] for each in channel.sent]))
    assert met == [["load"]]


@pytest.mark.parametrize(
    ("failure", "ends", "text"),
    [
        (CallFailed(FailureKind.EXCEPTION, "no plan"), RivalFailed, "its `prepare` failed: no plan"),
        (CallFailed(FailureKind.MEMORY, "full"), NotHeld, "not enough memory to prepare it"),
        (ChannelTimeout(), RivalFailed, "could not be"),
    ],
)
def test_a_rival_that_cannot_prepare_has_failed_unless_it_lacks_memory(
    failure: Exception, ends: type[Exception], text: str
) -> None:
    def prepare() -> None:
        raise failure

    channel: Any = Contestant({"type": "hello"}, {"type": "ready"})
    with pytest.raises(ends, match=text):
        load(channel, "rival.py", 5.0, lambda: 5.0, prepare)


def test_lack_of_memory_for_an_import_is_not_the_rivals_fault() -> None:
    failed = {"type": "fail", "kind": "memory", "text": "no"}
    with pytest.raises(NotHeld, match="not enough memory"):
        loaded(Contestant({"type": "hello"}, failed))


def test_an_import_for_which_there_is_no_time_is_not_the_rivals_fault() -> None:
    with pytest.raises(NotHeld, match="no time left"):
        loaded(Contestant({"type": "hello"}, ChannelTimeout()), 5.0, 0.0)
