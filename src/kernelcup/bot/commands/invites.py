"""Commands for the invite codes of members-only leaderboards. The API checks permissions."""

from __future__ import annotations

import discord
from discord import app_commands

from kernelcup.app.courses import membership
from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.context import Parts
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import replies, texts
from kernelcup.reporting.phrases import plural

LARGEST_CODES = 50
"""Number of invite codes shown in a message; more come as a file."""


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    invites = groups.subgroup(groups.admin(tree), "invites", "Invite codes for members-only leaderboards")
    for add in (_make_invites, _list_invites, _revoke_invite):
        add(invites, parts)


def _make_invites(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="make", description="Create codes; each lets one person in")
    @app_commands.describe(
        leaderboard_name="Which leaderboard",
        count="How many",
        label="A label, for example the people that the codes are for",
    )
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def make(
        interaction: discord.Interaction,
        leaderboard_name: str,
        count: app_commands.Range[int, 1, 1000] = 1,
        label: str = "",
    ) -> None:
        await begin(parts, interaction)
        made = await parts.api.call(
            membership.make_invites,
            replies.who(interaction),
            boards=[leaderboard_name],
            count=count,
            label=label,
        )
        codes = "\n".join(made.codes)
        text = f"{plural(count, 'code')} for {texts.code(leaderboard_name)}; each lets one person in:"
        if count > LARGEST_CODES:
            file = texts.Attached(f"invites-{texts.file_name(leaderboard_name)}.txt", codes.encode())
            await replies.answer(interaction, text, files=[file])
        else:
            await replies.answer(interaction, f"{text}\n{texts.block(codes)}")


def _list_invites(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="list", description="List the codes of a leaderboard")
    @app_commands.describe(leaderboard_name="Which leaderboard")
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def list_codes(interaction: discord.Interaction, leaderboard_name: str) -> None:
        await begin(parts, interaction)
        found = await parts.api.call(
            membership.list_invites, replies.who(interaction), board=leaderboard_name
        )
        lines = [
            f"{invite.code}  {texts.one_line(invite.label)[:40]}  "
            f"{'used by ' + texts.one_line(invite.claimed_by) if invite.claimed_by else 'unused'}"
            for invite in found
        ]
        name = f"invites-{texts.file_name(leaderboard_name)}.txt"
        logs = texts.pack([texts.Log(name, "\n".join(lines))] if lines else ["There are no codes."])
        for message in logs:
            await replies.answer(interaction, message.text, files=message.files)


def _revoke_invite(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="revoke", description="Revoke a code")
    @app_commands.describe(code="The code")
    async def revoke(interaction: discord.Interaction, code: str) -> None:
        await begin(parts, interaction)
        done = await parts.api.call(membership.revoke_invite, replies.who(interaction), code=code)
        used = "; the user who joined with it stays a member" if done.was_claimed else ""
        await replies.answer(interaction, f"✅ {texts.code(done.code)} is revoked{used}.")
