from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelcup.errors import BadReport
from kernelcup.launchers.local.harness_output import LineBuffer, Tail


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line), min_size=1), st.integers(1, 7))
def test_lines_come_back_however_they_are_cut(lines: list[bytes], size: int) -> None:
    stream = b"\n".join(lines)
    buffer = LineBuffer()
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    found = list(itertools.chain.from_iterable(buffer.feed(chunk) for chunk in chunks))
    assert [*found, buffer.finish()] == lines


def test_a_line_that_is_too_long_is_refused_before_it_ends() -> None:
    buffer = LineBuffer(largest=10)
    assert list(buffer.feed(b"0123456789\n01234")) == [b"0123456789"]
    with pytest.raises(BadReport, match="more than 10 bytes"):
        list(buffer.feed(b"567890"))


def test_a_tail_keeps_the_end() -> None:
    tail = Tail(kept=4)
    for chunk in (b"ab", b"cdefgh", b"i\xff"):
        tail.add(chunk)
    assert tail.text == "ghi\ufffd"
