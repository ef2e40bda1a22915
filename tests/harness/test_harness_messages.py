"""Messages between the processes of a job: what is sent arrives as it was, and nothing else is taken for a message."""

from __future__ import annotations

import dataclasses
import json
import random
import types
import typing
from enum import Enum
from typing import Any

import pytest
from mutations import hostile, too_deep

from kernelcup_harness.lint import messages as of_lint
from kernelcup_harness.protocol import CaseResult, DuelResult, Finding, JobSpec, ProtocolError, from_json
from kernelcup_harness.protocol.codec import Most, Raw
from kernelcup_harness.window import messages as of_window
from kernelcup_harness.wire import job_messages, messages
from kernelcup_harness.wire.channel import BrokenProtocol
from kernelcup_harness.wire.messages import Message, pack, unpack, unpack_any

KINDS = sorted(
    {
        value
        for module in (messages, job_messages, of_window, of_lint)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    },
    key=lambda kind: (kind.__module__, kind.__name__),
)
EXAMPLES: dict[Any, Any] = {str: "text", int: 3, float: 1.5, bool: True, Any: {"a": [1, None]}}


def example(hint: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint == Raw:
        return {"k": "list", "v": [1.5, None, {"k": "tensor", "i": 0}]}
    if origin is typing.Annotated:
        return example(inner[0])
    if origin in (types.UnionType, typing.Union):
        return example(next(each for each in inner if each is not types.NoneType))
    if origin is list:
        return [example(inner[0]), example(inner[0])]
    if origin is dict:
        return {"name": example(inner[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    return EXAMPLES[hint] if hint in EXAMPLES else made(hint)


def made(kind: Any) -> Any:
    """Return a message with all of its fields; of a job or a result, those that are required."""
    hints = typing.get_type_hints(kind, include_extras=True)
    brief = kind in (JobSpec, CaseResult, DuelResult, Finding)
    return kind(
        **{
            field.name: example(hints[field.name])
            for field in dataclasses.fields(kind)
            if not brief
            or (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)
        }
    )


def test_there_are_as_many_types_as_messages_in_each_conversation() -> None:
    for modules in ((messages, job_messages), (of_window,), (of_lint,)):
        inside = {module.__name__ for module in modules}
        names = [kind.type for kind in KINDS if kind.__module__ in inside]
        assert len(names) == len(set(names)) > 4
    assert {kind.type for kind in job_messages.FROM_JUDGE} >= {"stage", "case", "stage_end", "end"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_sent_arrives_as_it_was(kind: type[Message]) -> None:
    message = made(kind)
    frame = json.loads(json.dumps({"id": 5, **pack(message)}))
    assert frame["type"] == kind.type
    assert unpack(kind, frame) == message
    assert unpack_any([messages.Hello, kind], frame) == message


def test_a_number_that_is_none_arrives_in_a_tree_as_well() -> None:
    layout = messages.InputLayout(tree={"v": float("inf")}, table=[], bytes=1, in_place=False)
    message = messages.Give(slot=0, layout=layout, arenas=[])
    assert unpack(messages.Give, json.loads(json.dumps(pack(message)))) == message


GO = {"type": "go", "slot": 1, "profile": False}
STRANGE: list[dict[str, Any]] = [
    *({}, {"type": None}, {"type": ["go"]}, {"type": "given"}, {"type": "go"}, {"type": "go", "slot": 1}),
    *({**GO, **each} for each in ({"slot": 1.0}, {"slot": True}, {"profile": 0}, {"more": 1})),
]


@pytest.mark.parametrize("frame", STRANGE)
def test_what_is_no_message_is_refused(frame: dict[str, Any]) -> None:
    with pytest.raises(BrokenProtocol):
        unpack(messages.Go, frame)
    with pytest.raises(BrokenProtocol):
        unpack_any((messages.Go, messages.Give), frame)


def test_a_refusal_repeats_nothing_of_what_was_sent() -> None:
    with pytest.raises(BrokenProtocol) as refused:
        unpack(messages.Failed, {"type": "fail", "kind": "SECRET", "text": "", "SECRET": 1})
    assert "SECRET" not in str(refused.value)


@dataclasses.dataclass(frozen=True)
class Limited:
    text: typing.Annotated[str, Most(3)] = ""
    items: typing.Annotated[list[int], Most(2)] = dataclasses.field(default_factory=list)


def test_what_is_longer_than_its_limit_is_refused() -> None:
    assert from_json(Limited, {"text": "abc", "items": [1, 2]}) == Limited("abc", [1, 2])
    with pytest.raises(ProtocolError, match=r"^Limited\.text: 4 long; 3 are allowed$"):
        from_json(Limited, {"text": "abcd"})
    with pytest.raises(ProtocolError, match=r"^Limited\.items: 3 long; 2 are allowed$"):
        from_json(Limited, {"items": [1, 2, 3]})


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.jobs)])
def test_mutated_messages_are_messages_or_refused(count: int) -> None:
    chance = random.Random(11)
    honest = [(kind, {"id": 1, **pack(made(kind))}) for kind in KINDS]
    taken = 0
    for number in range(count):
        kind, frame = honest[number % len(honest)]
        if number % 1_000 == 0:
            sent: Any = {**frame, "more": too_deep()}
        else:
            sent = hostile(chance, frame, [])
        try:
            message = unpack(kind, sent if isinstance(sent, dict) else {})
        except BrokenProtocol:
            continue
        assert isinstance(message, kind)
        # Whatever is taken can be sent again.
        pack(message)
        taken += 1
    assert 0.05 * count < taken < 0.7 * count
