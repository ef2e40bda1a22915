"""The commands of ``kernelcup admin``: those of operations, and those that are written by hand."""

from __future__ import annotations

import typer

from kernelcup.cli.admin import (
    devices,
    limits,
    machines,
    members,
    pause,
    reviews,
    sign_in_links,
    stats,
    users,
)
from kernelcup.cli.help import HelpGroup
from kernelcup.cli.operations import add_commands

__all__ = ["admin", "limits"]

admin = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
admin.command("device-up")(devices.device_up)
admin.command("stats")(stats.stats)
users.user.command("link")(sign_in_links.link)
users.user.command("links")(sign_in_links.list_links)
users.user.command("revoke-link")(sign_in_links.revoke_link)
admin.add_typer(users.user, name="user", cls=HelpGroup)
admin.add_typer(users.token, name="token", cls=HelpGroup)
admin.command("audit")(users.audit)
admin.command("pause")(pause.pause)
admin.command("start")(pause.start)
admin.command("pauses")(pause.list_pauses)
groups = add_commands(
    admin,
    "admin",
    {
        "limit": "Limits on submissions in a period of time.",
        "late": "Users who may submit after the deadline.",
        "invite": "Invite codes for closed leaderboards.",
        "members": "Members of closed leaderboards.",
    },
)
groups["members"].command("import")(members.import_members)
admin.add_typer(machines.app, name="machines", cls=HelpGroup)
admin.command("rejudge")(reviews.rejudge)
admin.add_typer(reviews.reviews, name="reviews", cls=HelpGroup)
admin.command("quarantine")(reviews.quarantine)
