"""The commands of ``kernelcup admin``: those of operations, and those that are written by hand."""

from __future__ import annotations

from typing import Any

import typer

from kernelcup.cli.admin import limits, machines, members, pause, reviews, stats, users
from kernelcup.cli.operations import add_commands

__all__ = ["commands", "limits"]

GROUPS = {
    "user": "Create, list and change users.",
    "token": "Create, list and revoke tokens.",
    "limit": "Limits on submissions in a period of time.",
    "late": "Users who may submit after the deadline.",
    "invite": "Invite codes for members-only leaderboards.",
    "members": "Members of members-only leaderboards.",
    "machines": "The machines that judge.",
    "reviews": "Results that wait for a decision.",
}
ORDER = {
    "": (
        "device-up",
        "stats",
        "audit",
        "pause",
        "start",
        "pauses",
        "close",
        "freeze",
        "unveil",
        "rejudge",
        "quarantine",
    ),
    "user": ("list", "add", "role", "ban", "unban", "link", "links", "revoke-link"),
    "token": ("create", "list", "revoke"),
    "machines": (
        "list",
        "add",
        "drain",
        "resume",
        "own",
        "price",
        "rank",
        "remove",
        "reserve",
        "reservations",
    ),
}
"""The first commands of a group in its help; all others follow."""


def commands() -> dict[str, Any]:
    """Return all commands by name."""
    admin = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    groups = add_commands(admin, "admin", GROUPS)
    admin.command("stats")(stats.stats)
    admin.command("pause")(pause.pause)
    admin.command("start")(pause.start)
    admin.command("rejudge")(reviews.rejudge)
    admin.command("quarantine")(reviews.quarantine)
    for name in ("drain", "resume", "own", "price", "rank", "reserve"):
        groups["machines"].command(name)(getattr(machines, name))
    groups["members"].command("import")(members.import_members)
    groups["user"].command("role")(users.change_role)
    groups["user"].command("link")(users.link)
    groups["token"].command("create")(users.create_token)
    groups["token"].command("list")(users.list_tokens)
    root: Any = typer.main.get_group(admin)
    for name, first in ORDER.items():
        group = root.commands[name] if name else root
        group.commands = {each: group.commands[each] for each in (*first, *group.commands)}
    found: dict[str, Any] = root.commands
    return found
