"""Validate plain values against a shape, with problems in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.schema import Shape
from kernelcup.tasks.manifest.yaml_text import Path

S = TypeVar("S", bound=Shape)

WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
}
KINDS: dict[type, str] = {
    bool: "a boolean",
    int: "a whole number",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing",
}


def kind_of(value: object) -> str:
    """Return the kind of a YAML value in words."""
    return KINDS.get(type(value), type(value).__name__)


def validate(shape: type[S], raw: object, path: Path, findings: Findings) -> S | None:
    """Return ``raw`` as ``shape``, or add problems and return None."""
    if not isinstance(raw, dict):
        allowed = ", ".join(f"`{key}`" for key in shape.model_fields)
        findings.at_value(path, f"must be a mapping with the keys {allowed}, not {kind_of(raw)}")
        return None
    try:
        return shape.model_validate(_without_empty(raw))
    except ValidationError as failure:
        for error in failure.errors(include_url=False):
            _note(error, shape, path, findings)
        return None


def validate_rest(
    shape: type[S], raw: Mapping[str, Any], stand_ins: Mapping[str, Any]
) -> tuple[S, frozenset[str]]:
    """Return the valid part of ``raw`` and the invalid keys; ``stand_ins`` replace required ones."""
    try:
        return shape.model_validate(_without_empty(raw)), frozenset()
    except ValidationError as failure:
        bad = frozenset(str(error["loc"][0]) for error in failure.errors() if error["loc"])
    rest = {key: value for key, value in raw.items() if key not in bad}
    filled = {key: value for key, value in stand_ins.items() if key in bad}
    return shape.model_validate(_without_empty({**filled, **rest})), bad


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return `` did you mean `x`?`` for a near miss, else an empty text."""
    near = difflib.get_close_matches(word, list(allowed), n=1)
    return f" did you mean `{near[0]}`?" if near else ""


def _without_empty(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if value is not None}


def _note(error: ErrorDetails, shape: type[Shape], path: Path, findings: Findings) -> None:
    place = path + tuple(part for part in error["loc"] if part != "[key]")
    if place in findings.document.broken:
        return
    text = explain(error, shape.model_fields)
    if error["type"] in ("extra_forbidden", "missing") or error["loc"][-1:] == ("[key]",):
        findings.at_key(place, text)
    else:
        findings.at_value(place, text)


def explain(error: ErrorDetails, allowed: Iterable[str]) -> str:
    """Return a validation error in words; ``allowed`` are the keys that its mapping may have."""
    kind = error["type"]
    if kind == "extra_forbidden":
        guess = did_you_mean(str(error["loc"][-1]), allowed)
        return f"unknown key;{guess} allowed are {', '.join(allowed)}"
    if kind in WANTED:
        return f"must be {WANTED[kind]}, not {kind_of(error['input'])}"
    if kind == "missing":
        return "is required and missing"
    if kind == "enum":
        return f"must be {error['ctx']['expected']}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty"
    return _explain_range(error)


def _explain_range(error: ErrorDetails) -> str:
    if error["type"] == "greater_than":
        return f"must be greater than {error['ctx']['gt']}"
    if error["type"] == "less_than_equal":
        return f"must be at most {error['ctx']['le']}"
    if error["type"] == "greater_than_equal":
        return f"must be at least {error['ctx']['ge']}"
    return error["msg"]
