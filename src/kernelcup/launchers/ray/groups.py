"""The slots that are reserved: a placement group for each call, named after it. They outlive who made them."""

from __future__ import annotations

from typing import Any

from ray.util.placement_group import (
    get_placement_group,
    placement_group_table,
    remove_placement_group,
)

CALL = "call-"
"""What the names of calls begin with, among all groups of the cluster."""


def held() -> dict[str, dict[str, Any]]:
    """Return what Ray knows of all reserved slots, by call."""
    found = [each for each in placement_group_table().values() if each["name"].startswith(CALL)]
    return {each["name"]: each for each in found if each["state"] != "REMOVED"}


def find(call: str) -> Any | None:
    """Return the group of a call, None if there is none."""
    try:
        return get_placement_group(call)
    except ValueError:
        return None


def node_of(group: Any) -> str | None:
    """Return the node of a group, None while it has none."""
    found = placement_group_table(group)
    node = found["bundles_to_node_id"].get(0) if found.get("state") == "CREATED" else None
    return node or None


def remove(group: Any) -> None:
    """Free the slots of a group."""
    remove_placement_group(group)
