"""Basics of the protocol: its version, the types of case values, and its error."""

from __future__ import annotations

from typing import Any

SLOWED_DOWN = 0x08 | 0x20 | 0x40 | 0x80
"""The driver's reasons for lower clocks that count: ``HwSlowdown``, ``SwThermalSlowdown``, ``HwThermalSlowdown``
and ``HwPowerBrakeSlowdown``. A power limit that a kernel itself reaches does not, and neither does idleness."""

PROTOCOL_VERSION = 1

# The types of a case value; lists hold the same types.
CaseValue = int | float | bool | str | list["CaseValue"]
Parameters = dict[str, Any]


class ProtocolError(ValueError):
    """A message does not have the agreed form. The text starts with the dotted path."""
