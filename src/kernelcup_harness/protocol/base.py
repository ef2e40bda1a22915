"""Basics of the protocol: its version, the types of case values, and its error."""

from __future__ import annotations

from typing import Any

PROTOCOL_VERSION = 1

# The types of a case value; lists hold the same types.
CaseValue = int | float | bool | str | list["CaseValue"]
Parameters = dict[str, Any]


class ProtocolError(ValueError):
    """A message does not have the agreed form. The text starts with the dotted path."""
