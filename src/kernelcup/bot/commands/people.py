"""Commands about people: bans and limits. The API checks permissions."""

from __future__ import annotations

import discord
from discord import app_commands

from kernelcup.app.people import accounts
from kernelcup.app.rules import limits
from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.context import Parts
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import replies, texts
from kernelcup.errors import InvalidValue


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    admin = groups.admin(tree)
    for add in (_ban, _unban):
        add(admin, parts)
    rules = groups.subgroup(admin, "limits", "Limits on submissions")
    for add in (_show_limits, _add_limit, _remove_limit):
        add(rules, parts)


def _ban(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="ban", description="Ban a user: they can look, but no longer submit")
    @app_commands.describe(
        reason="Reason, shown to the user", user="The user on Discord", name="Or the name on the platform"
    )
    async def ban(
        interaction: discord.Interaction,
        reason: app_commands.Range[str, 1, 500],
        user: discord.User | None = None,
        name: str | None = None,
    ) -> None:
        await begin(parts, interaction)
        found = await _account(parts, user, name)
        await parts.api.call(accounts.ban, replies.who(interaction), name=found, reason=reason)
        await replies.answer(interaction, f"🔒 {texts.code(found)} is banned: {texts.plain(reason, 500)}")


def _unban(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="unban", description="Lift a ban")
    @app_commands.describe(user="The user on Discord", name="Or the name on the platform")
    async def unban(
        interaction: discord.Interaction, user: discord.User | None = None, name: str | None = None
    ) -> None:
        await begin(parts, interaction)
        found = await _account(parts, user, name)
        await parts.api.call(accounts.unban, replies.who(interaction), name=found)
        await replies.answer(interaction, f"🔓 {texts.code(found)} may submit again.")


async def _account(parts: Parts, user: discord.User | None, name: str | None) -> str:
    """Return a user's name on the platform. A new Discord user gets an account."""
    if (user is None) == (name is None):
        raise InvalidValue("Name the user: either the user on Discord or the name on the platform.")
    if user is None:
        return str(name)
    return (await parts.api.call(accounts.get_me, replies.person(user))).name


def _show_limits(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="show", description="Show the limits")
    @app_commands.describe(leaderboard_name="Only limits of this leaderboard")
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def show(interaction: discord.Interaction, leaderboard_name: str | None = None) -> None:
        await begin(parts, interaction)
        found = await parts.api.call(limits.list_limits, replies.who(interaction), board=leaderboard_name)
        lines = [f"**{rule.id}** {texts.plain(rule.text)}" for rule in found]
        await replies.answer(interaction, texts.bullet_list(lines) or "There are no limits.")


def _add_limit(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="add", description="Add a limit")
    @app_commands.describe(
        limit="For example 10/hour or 600 gpu-seconds/day",
        leaderboard_name="Only submissions to this leaderboard; default: all",
        gpu="Only submissions to this GPU",
        together="One amount shared by all users, instead of one each",
    )
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def add(
        interaction: discord.Interaction,
        limit: str,
        leaderboard_name: str | None = None,
        gpu: str | None = None,
        together: bool = False,
    ) -> None:
        await begin(parts, interaction)
        made = await parts.api.call(
            limits.add_limit,
            replies.who(interaction),
            text=limit,
            board=leaderboard_name,
            device=gpu,
            per_user=not together,
        )
        await replies.answer(interaction, f"✅ Limit **{made.id}**: {texts.plain(made.text)}")


def _remove_limit(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="remove", description="Remove a limit")
    @app_commands.describe(number="The number from /admin limits show")
    async def remove(interaction: discord.Interaction, number: app_commands.Range[int, 1]) -> None:
        await begin(parts, interaction)
        await parts.api.call(limits.remove_limit, replies.who(interaction), limit_id=number)
        await replies.answer(interaction, f"✅ Limit {number} was removed.")
