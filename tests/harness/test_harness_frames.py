"""Frames between the processes of a run: bounded JSON objects, descriptors alongside, nothing else."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from kernelcup_harness.wire.channel import (
    BrokenProtocol,
    Channel,
    ChannelClosed,
    ChannelTimeout,
    parse_object,
)

LIMIT = 4096


@pytest.fixture
def raw_end() -> Iterator[tuple[socket.socket, Channel]]:
    """A bare socket, and the channel that listens to it."""
    ours, theirs = socket.socketpair()
    channel = Channel(theirs, max_bytes=LIMIT)
    yield ours, channel
    ours.close()
    channel.close()


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """Two channels that are connected."""
    left, right = (Channel(sock, max_bytes=1 << 20) for sock in socket.socketpair())
    yield left, right
    left.close()
    right.close()


def framed(body: bytes) -> bytes:
    """Put the length in front."""
    return struct.pack("!I", len(body)) + body


def test_an_object_arrives_as_it_was_sent(ends: tuple[Channel, Channel]) -> None:
    left, right = ends
    message = {"type": "call", "list": [1, 2.5, None, True], "text": "häßlich \ud800 \x00"}
    left.send(message)
    assert right.receive(30.0) == message


def test_frames_arrive_in_order_and_apart(raw_end: tuple[socket.socket, Channel]) -> None:
    ours, channel = raw_end
    ours.sendall(framed(b'{"n":1}') + framed(b'{"n":2}') + framed(b'{"n":3}')[:5])
    assert channel.receive(30.0) == {"n": 1}
    assert channel.receive(30.0) == {"n": 2}
    ours.sendall(framed(b'{"n":3}')[5:])
    assert channel.receive(30.0) == {"n": 3}


def test_a_frame_of_exactly_the_limit_is_accepted(raw_end: tuple[socket.socket, Channel]) -> None:
    ours, channel = raw_end
    body = b'{"n":"' + b"x" * (LIMIT - 8) + b'"}'
    assert len(body) == LIMIT
    ours.sendall(framed(body))
    assert len(channel.receive(30.0)["n"]) == LIMIT - 8


@pytest.mark.parametrize("length", [LIMIT + 1, 2**31, 2**32 - 1])
def test_a_frame_that_is_too_long_is_refused_before_it_is_read(
    raw_end: tuple[socket.socket, Channel], length: int
) -> None:
    ours, channel = raw_end
    ours.sendall(struct.pack("!I", length))
    with pytest.raises(BrokenProtocol, match=str(length)):
        channel.receive(30.0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b"\xff\xfe{}",
        b"\x80\x04N.",
        b"[" * 4000,
        b'{"a":' * 700 + b"1",
    ],
)
def test_a_frame_that_is_not_json_is_refused(raw_end: tuple[socket.socket, Channel], body: bytes) -> None:
    ours, channel = raw_end
    ours.sendall(framed(body))
    with pytest.raises(BrokenProtocol, match="not JSON"):
        channel.receive(30.0)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", [], [{}]])
def test_a_frame_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(BrokenProtocol, match="not a JSON object"):
        parse_object(json.dumps(value).encode())


def test_the_end_of_the_other_side_is_told(raw_end: tuple[socket.socket, Channel]) -> None:
    ours, channel = raw_end
    ours.sendall(framed(b'{"last":1}'))
    ours.close()
    assert channel.receive(30.0) == {"last": 1}
    with pytest.raises(ChannelClosed):
        channel.receive(30.0)


@pytest.mark.parametrize("sent", [1, 3, 4, 9])
def test_a_frame_that_is_cut_off_is_the_end(raw_end: tuple[socket.socket, Channel], sent: int) -> None:
    ours, channel = raw_end
    ours.sendall(framed(b'{"cut":"off"}')[:sent])
    ours.close()
    with pytest.raises(ChannelClosed):
        channel.receive(30.0)


def test_sending_to_nobody_is_told(raw_end: tuple[socket.socket, Channel]) -> None:
    ours, channel = raw_end
    ours.close()
    with pytest.raises(ChannelClosed):
        channel.send({"anybody": "there"})


@pytest.mark.parametrize("sent", [b"", b"\x00", framed(b'{"half":')])
def test_an_incomplete_frame_times_out(raw_end: tuple[socket.socket, Channel], sent: bytes) -> None:
    ours, channel = raw_end
    ours.sendall(sent)
    with pytest.raises((ChannelTimeout, BrokenProtocol)):
        channel.receive(0.0)


def test_a_frame_of_many_pieces_does_not_extend_the_time_and_is_read_by_who_comes_back(
    raw_end: tuple[socket.socket, Channel],
) -> None:
    ours, channel = raw_end
    ours.sendall(struct.pack("!I", 7) + b'{"a"')
    for piece in (b":", b"1"):
        with pytest.raises(ChannelTimeout):
            channel.receive(0.0)
        ours.sendall(piece)
    ours.sendall(b"}")
    assert channel.receive(30.0) == {"a": 1}


def test_what_nobody_asked_for_is_pending(raw_end: tuple[socket.socket, Channel]) -> None:
    ours, channel = raw_end
    assert not channel.has_pending()
    ours.sendall(framed(b"{}") + b"\x00")
    assert channel.has_pending()
    channel.receive(30.0)
    assert channel.has_pending()  # the byte that came with the frame


def test_descriptors_come_with_their_frame_and_are_given_once_and_not_inherited(
    ends: tuple[Channel, Channel],
) -> None:
    left, right = ends
    reading, writing = os.pipe()
    left.send({"type": "call"}, [writing])
    os.close(writing)
    right.receive(30.0)
    (received,) = right.take_fds()
    assert right.take_fds() == []
    assert not os.get_inheritable(received)
    os.write(received, b"through")
    os.close(received)
    assert os.read(reading, 100) == b"through"
    os.close(reading)


def test_a_flood_of_descriptors_does_not_fill_the_table_of_the_receiver(
    raw_end: tuple[socket.socket, Channel],
) -> None:
    """The judge expects none: 200 single bytes with four each would leave it unable to open anything."""
    ours, channel = raw_end
    before = set(os.listdir("/proc/self/fd"))
    four = array.array("i", [ours.fileno()] * 4)
    data = framed(b'{"n":"' + b"x" * 200 + b'"}')
    for byte in data:
        ours.sendmsg([bytes([byte])], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, four)])
    with contextlib.suppress(BrokenProtocol):  # refusing is as good as dropping them
        channel.receive(30.0)
    held = len(set(os.listdir("/proc/self/fd")) - before)
    for fd in channel.take_fds():
        os.close(fd)
    assert held <= 8


def test_a_wrapped_descriptor_is_not_inherited_further() -> None:
    ours, theirs = socket.socketpair()
    fd = theirs.detach()
    os.set_inheritable(fd, True)
    channel = Channel.from_fd(fd, max_bytes=LIMIT)
    assert fcntl.fcntl(channel.fileno(), fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    channel.close()
    ours.close()
