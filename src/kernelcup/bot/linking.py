"""One's account of the platform: joining it with that of Discord, and what the bot writes to oneself."""

from __future__ import annotations

import discord
from discord import app_commands

from kernelcup.bot import groups, texts
from kernelcup.bot.parts import Parts
from kernelcup.bot.replies import answer, think, who


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""

    @tree.command(name="link", description="Join your Discord account with your account on the web")
    @app_commands.describe(code="The code that your account's page on the web shows")
    async def link(interaction: discord.Interaction, code: app_commands.Range[str, 1, 64]) -> None:
        await think(interaction)
        linked = await parts.api.send("POST", "/link", who(interaction), json={"code": code})
        await answer(interaction, f"🔗 You are {texts.code(linked['user'])} here from now on.")

    @tree.command(name="unlink", description="Take your Discord account from your account on the web")
    async def unlink(interaction: discord.Interaction) -> None:
        await think(interaction)
        await parts.api.send("POST", "/unlink", who(interaction))
        await answer(interaction, "🔗 Your Discord account is no longer joined with that account.")

    @tree.command(
        name="direct-messages", description="Whether you are told when a result of yours is overtaken"
    )
    @app_commands.describe(wanted="True: in a direct message. False: not at all")
    async def direct_messages(interaction: discord.Interaction, wanted: bool) -> None:
        await think(interaction)
        await parts.api.send("PATCH", "/me", who(interaction), json={"direct_messages": wanted})
        told = "🔔 A direct message tells you" if wanted else "🔕 No direct message tells you"
        await answer(interaction, f"{told} when a result of yours is overtaken.")
