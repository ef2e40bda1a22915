"""Commands for one's own account: linking it to Discord, and direct messages from the bot."""

from __future__ import annotations

import discord
from discord import app_commands

from kernelcup.app.people import accounts
from kernelcup.bot.commands import groups
from kernelcup.bot.context import Parts
from kernelcup.bot.messages import texts
from kernelcup.bot.messages.replies import answer, think, who


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""

    @tree.command(name="link", description="Link your Discord account to your account on the web")
    @app_commands.describe(code="The code from your account page on the web")
    async def link(interaction: discord.Interaction, code: app_commands.Range[str, 1, 64]) -> None:
        await think(interaction)
        linked = await parts.api.post("/link", who(interaction), json={"code": code})
        await answer(interaction, f"🔗 From now on you are {texts.code(linked['user'])} here.")

    @tree.command(name="unlink", description="Unlink your Discord account from your account on the web")
    async def unlink(interaction: discord.Interaction) -> None:
        await think(interaction)
        await parts.api.post("/unlink", who(interaction))
        await answer(interaction, "🔗 Your Discord account is no longer linked to that account.")

    @tree.command(
        name="direct-messages",
        description="Whether you get a direct message when your result is overtaken or loses its rank",
    )
    @app_commands.describe(wanted="True: send direct messages. False: send none")
    async def direct_messages(interaction: discord.Interaction, wanted: bool) -> None:
        await think(interaction)
        await parts.api.call(accounts.set_direct_messages, who(interaction), wanted=wanted)
        told = "🔔 You get a direct message" if wanted else "🔕 You get no direct message"
        await answer(interaction, f"{told} when one of your results is overtaken or loses its rank.")
