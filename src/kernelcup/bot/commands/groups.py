"""The groups of commands, which several modules fill."""

from __future__ import annotations

from typing import Any

from discord import app_commands

Tree = app_commands.CommandTree[Any]


def leaderboard(tree: Tree) -> app_commands.Group:
    return _group(tree, "leaderboard", "Leaderboards: submit, view, manage")


def admin(tree: Tree) -> app_commands.Group:
    return _group(tree, "admin", "For leaderboard managers and operators")


def subgroup(parent: app_commands.Group, name: str, description: str) -> app_commands.Group:
    """Return a group inside a group."""
    found = parent.get_command(name)
    if isinstance(found, app_commands.Group):
        return found
    return app_commands.Group(name=name, description=description, parent=parent)


def _group(tree: Tree, name: str, description: str) -> app_commands.Group:
    found = tree.get_command(name)
    if isinstance(found, app_commands.Group):
        return found
    made = app_commands.Group(name=name, description=description, guild_only=True)
    tree.add_command(made)
    return made
