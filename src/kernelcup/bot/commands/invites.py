"""Commands for the invite codes of closed leaderboards. The API checks permissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import discord
from discord import app_commands

from kernelcup.bot.api import Who
from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.context import Parts
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import replies, texts
from kernelcup.client.requests import path_of

Json = Mapping[str, Any]
Command = app_commands.Command[Any, ..., None]

LARGEST_CODES = 50
"""Number of invite codes shown in a message; more come as a file."""


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    invites = groups.subgroup(groups.admin(tree), "invites", "Invite codes for closed leaderboards")
    for command in (_make_invites(parts), _list_invites(parts), _revoke_invite(parts)):
        invites.add_command(command)


def _make_invites(parts: Parts) -> Command:
    @app_commands.command(name="make", description="Create codes; each lets one person in")
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
        body = {"leaderboards": [leaderboard_name], "count": count, "label": label}
        made = await parts.api.send("POST", "/invites", replies.who(interaction), json=body)
        codes = "\n".join(made["codes"])
        text = f"{count} codes for {texts.code(leaderboard_name)}; each lets one person in:"
        if count > LARGEST_CODES:
            file = texts.Attached(f"invites-{texts.file_name(leaderboard_name)}.txt", codes.encode())
            await replies.answer(interaction, text, files=[file])
        else:
            await replies.answer(interaction, f"{text}\n{texts.block(codes)}")

    return make


def _list_invites(parts: Parts) -> Command:
    @app_commands.command(name="list", description="List the codes of a leaderboard")
    @app_commands.describe(leaderboard_name="Which leaderboard")
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def list_codes(interaction: discord.Interaction, leaderboard_name: str) -> None:
        await begin(parts, interaction)
        path = path_of("leaderboards", leaderboard_name, "invites")
        found = await _every(parts, path, replies.who(interaction))
        lines = [
            f"{each['code']}  {texts.one_line(each['label'])[:40]}  "
            f"{'used by ' + texts.one_line(each['claimed_by']) if each['claimed_by'] else 'unused'}"
            for each in found
        ]
        name = f"invites-{texts.file_name(leaderboard_name)}.txt"
        logs = texts.pack([texts.Log(name, "\n".join(lines))] if lines else ["There are no codes."])
        for message in logs:
            await replies.answer(interaction, message.text, files=message.files)

    return list_codes


async def _every(parts: Parts, path: str, who: Who) -> list[Json]:
    """Return all entries of a paged list."""
    found: list[Json] = []
    after: Any = None
    while True:
        page = await parts.api.get(path, who, after=after)
        if isinstance(page, list):
            return page
        found += page["items"]
        after = page["next"]
        if after is None:
            return found


def _revoke_invite(parts: Parts) -> Command:
    @app_commands.command(name="revoke", description="Revoke a code")
    @app_commands.describe(code="The code")
    async def revoke(interaction: discord.Interaction, code: str) -> None:
        await begin(parts, interaction)
        done = await parts.api.send("DELETE", path_of("invites", code), replies.who(interaction))
        used = "; the user who joined with it stays a member" if done["was_claimed"] else ""
        await replies.answer(interaction, f"✅ {texts.code(done['code'])} is revoked{used}.")

    return revoke
