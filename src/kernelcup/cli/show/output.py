"""What commands print: texts cleared of control sequences from submissions, and the objects of ``--json``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kernelcup.clean_text import plain
from kernelcup.domain import Task

__all__ = ["LONGEST_LINE", "fields", "json_object", "plain", "shortened", "without_hidden"]

LONGEST_LINE = 2000


def shortened(text: str, *, first: int, last: int) -> str:
    """Return a text for people: control characters removed, long lines and long texts cut."""
    lines = [
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} [{len(line) - LONGEST_LINE} more]"
        for line in plain(text).rstrip().split("\n")
    ]
    left_out = len(lines) - first - last
    if left_out > 0:
        lines[first : len(lines) - last] = [f"[{left_out} lines left out; --json has all that is stored]"]
    return "\n".join(lines)


def json_object(value: object, *names: str, **more: object) -> dict[str, Any]:
    """Return a value's attributes and extra fields as the object that ``--json`` prints."""
    from kernelcup.app.boards.changes import as_json

    facts = {name: getattr(value, name) for name in names} | more
    return {name: dict(each) if isinstance(each, Mapping) else as_json(each) for name, each in facts.items()}


def fields(value: Any) -> dict[str, Any]:
    """Return all fields of a dataclass as the object that ``--json`` prints."""
    return json_object(value, *(field.name for field in dataclasses.fields(value)))


def without_hidden(task: Task) -> dict[str, object]:
    """Return a task as JSON, hidden cases as their number."""
    body = dict(task.to_json())
    body["hidden_tests"] = len(task.hidden_tests)
    body["hidden_benchmarks"] = len(task.hidden_benchmarks)
    body["data"] = {name: {"bytes": size, "sha256": sum_} for name, (size, sum_) in task.data_sums().items()}
    # The traffic of a hidden case would reveal its size.
    del body["hidden_work"], body["reference_s"]
    return {**body, "content_hash": task.content_hash}
