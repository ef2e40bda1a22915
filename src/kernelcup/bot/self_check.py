"""Check whether a bot could work: tokens, server, guilds and permissions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import discord

from kernelcup.app.people import accounts
from kernelcup.bot.api import SERVICE, Api
from kernelcup.bot.context import BotConfig
from kernelcup.bot.guild_setup import ADMIN_ROLE, CATEGORY, CREATOR_ROLE, FORUM, GENERAL, NEEDED, SUBMISSIONS
from kernelcup.domain.answers import CheckResult, check
from kernelcup.errors import KernelCupError

PATIENCE_S = 2.0


async def look(config: BotConfig) -> AsyncIterator[CheckResult]:
    """Run all checks, without the gateway: nothing is changed or visible to others."""
    yield await _platform(config)
    client = discord.Client(intents=discord.Intents(guilds=True))
    async with client:
        try:
            await client.login(config.token)
        except discord.LoginFailure:
            yield check("token", False, "Discord rejects KERNELCUP_DISCORD_TOKEN")
            return
        except (discord.HTTPException, OSError) as error:
            yield check("discord", False, f"Discord cannot be reached: {error}")
            return
        assert client.user is not None
        yield check("token", True, f"the bot is {client.user}")
        url = discord.utils.oauth_url(client.user.id, permissions=NEEDED)
        guilds = [each async for each in client.fetch_guilds(limit=200)]
        if not guilds:
            yield check("guilds", False, f"the bot is in no guild; invite it: {url}")
        for guild in guilds:
            try:
                yield await _guild(client, guild.id, url)
            except discord.HTTPException as error:
                yield check(guild.name, False, f"Discord denies the bot access to it: {error}")
        if not config.role_guilds and len(guilds) > 1:
            yield check(
                "roles",
                False,
                "there are several guilds and none is trusted: name the trusted ones in KERNELCUP_DISCORD_GUILDS",
            )


async def _platform(config: BotConfig) -> CheckResult:
    api = Api(config.api_url, config.service_token)
    try:
        me = await api.call(accounts.get_me, SERVICE, patience_s=PATIENCE_S)
    except KernelCupError as error:
        return check("server", False, f"{config.api_url}: {error}")
    finally:
        await api.close()
    if missing := {"act", "admin"} - me.scopes:
        text = f"the token of {me.name} lacks the scope {', '.join(sorted(missing))}"
        return check("server", "act" not in missing, text)
    return check("server", True, f"{config.api_url}, as {me.name}")


async def _guild(client: discord.Client, guild_id: int, url: str) -> CheckResult:
    guild = await client.fetch_guild(guild_id)
    assert client.user is not None
    member = await guild.fetch_member(client.user.id)
    missing = [name for name, needed in NEEDED if needed and not getattr(member.guild_permissions, name)]
    if missing and not member.guild_permissions.administrator:
        words = ", ".join(name.replace("_", " ") for name in missing)
        return check(guild.name, False, f"the bot lacks permissions: {words}; invite it again: {url}")
    there = {channel.name for channel in await guild.fetch_channels()} | {role.name for role in guild.roles}
    wanted = (CATEGORY, SUBMISSIONS, GENERAL, FORUM, ADMIN_ROLE, CREATOR_ROLE)
    if absent := [name for name in wanted if name not in there]:
        return check(guild.name, True, f"the bot will create {', '.join(absent)} when it starts")
    return check(guild.name, True, "roles and channels exist")
