"""What the bot makes of guilds: channels, roles, whom it trusts; and what the doctor says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from discord_loopback import Permission
from stage import Stage, connected

from kernelcup.app.access import HERE
from kernelcup.app.people import accounts
from kernelcup.bot import guild_roles, self_check
from kernelcup.domain import OPERATOR, Role

pytestmark = pytest.mark.anyio

CHANNELS = {"Leaderboards", "submissions", "general", "central"}


async def test_channels_and_roles_are_made_once(stage: Stage) -> None:
    def count() -> tuple[int, int]:
        return len(stage.guild.guild.channels), len(stage.guild.guild.roles)

    before = count()
    assert set(stage.guild.channels) >= CHANNELS
    assert stage.guild.has_role("Leaderboard Admin")
    assert stage.guild.has_role("Leaderboard Creator")
    await stage.bot.close()
    async with connected(stage.discord, stage.guild, stage.bot_config):
        pass
    assert count() == before


async def test_a_channel_that_is_deleted_is_made_again(stage: Stage) -> None:
    old = stage.room
    stage.guild.delete_channel(old)
    await stage.discord.until(lambda: "submissions" in stage.guild.channels, "the channel", 10)
    ada = stage.guild.add_member("ada")
    await stage.discord.until(lambda: stage.bot.parts.guilds.submissions(stage.guild.id) != old.id, "it", 10)
    asked = await stage.discord.slash(ada, stage.room, "leaderboard help")
    await asked.wait_text(f"Submit in <#{stage.room.id}>")


async def test_a_guild_that_is_joined_later_is_set_up(stage: Stage) -> None:
    other = stage.discord.add_guild("Another")
    await stage.discord.until(lambda: set(other.channels) >= CHANNELS, "channels", 10)


async def test_a_guild_that_lets_the_bot_make_nothing_is_no_trouble(stage: Stage) -> None:
    other = stage.discord.add_guild("Strict", bot_permissions=Permission.SEND_MESSAGES)
    third = stage.discord.add_guild("Third")
    await stage.discord.until(lambda: set(third.channels) >= CHANNELS, "channels", 10)
    assert not set(other.channels) & CHANNELS


async def role_of(stage: Stage, name: str) -> Role:
    return accounts.get_user(stage.db, OPERATOR, name).role


async def manage(stage: Stage, member: object, guild: object = None) -> None:
    room = (guild or stage.guild).channel("submissions")  # type: ignore[attr-defined]
    asked = await stage.discord.slash(member, room, "admin stats", {})  # type: ignore[arg-type]
    await asked.wait_response()


async def test_a_role_of_the_guild_is_a_role_of_the_platform_as_long_as_it_is_there(stage: Stage) -> None:
    root = stage.admin()
    await manage(stage, root)
    assert await role_of(stage, "root") is Role.ADMIN
    stage.guild.take(root, "Leaderboard Admin")
    stage.guild.give(root, "Leaderboard Creator")
    await guild_roles.review_given(stage.bot.parts, stage.bot)
    assert await role_of(stage, "root") is Role.CREATOR
    stage.guild.take(root, "Leaderboard Creator")
    await manage(stage, root)
    assert await role_of(stage, "root") is Role.PARTICIPANT


async def test_a_role_that_the_platform_gave_is_not_taken(stage: Stage) -> None:
    ada = stage.guild.add_member("ada")
    await manage(stage, ada)
    accounts.change(stage.db, OPERATOR, "ada", role=Role.CREATOR, entry=HERE, now=stage.discord.clock.now())
    stage.guild.give(ada, "Leaderboard Admin")
    await manage(stage, ada)
    assert await role_of(stage, "ada") is Role.ADMIN
    stage.guild.take(ada, "Leaderboard Admin")
    await guild_roles.review_given(stage.bot.parts, stage.bot)
    assert await role_of(stage, "ada") is Role.CREATOR


async def test_of_several_guilds_only_those_that_are_named_are_trusted(stage: Stage) -> None:
    other = stage.discord.add_guild("Another")
    await stage.discord.until(lambda: other.has_role("Leaderboard Admin"), "roles", 10)
    await stage.discord.until(lambda: "submissions" in other.channels, "channels", 10)
    eve = other.add_member("eve", ["Leaderboard Admin"])
    await manage(stage, eve, other)
    assert await role_of(stage, "eve") is Role.PARTICIPANT
    stage.bot.parts.config = replace(stage.bot_config, role_guilds=frozenset({stage.guild.id}))
    await manage(stage, eve, other)
    assert await role_of(stage, "eve") is Role.PARTICIPANT
    root = stage.admin()
    await manage(stage, root)
    assert await role_of(stage, "root") is Role.ADMIN


async def looked(stage: Stage, **changes: object) -> dict[str, tuple[bool, str]]:
    with stage.discord.patched():
        found = [each async for each in self_check.look(replace(stage.bot_config, **changes))]  # type: ignore[arg-type]
    return {each.name: (each.state == "ok", each.text) for each in found}


async def test_the_doctor_finds_nothing_wrong(stage: Stage) -> None:
    found = await looked(stage)
    assert all(good for good, _ in found.values()), found
    assert set(found) == {"server", "token", stage.guild.name}


async def test_the_doctor_says_what_is_wrong(stage: Stage) -> None:
    found = await looked(stage, token="wrong", service_token="wrong")
    assert not found["server"][0]
    assert "rejects" in found["token"][1]
    stage.guild.set_permissions(stage.discord.bot.name, Permission.SEND_MESSAGES)
    good, text = (await looked(stage))[stage.guild.name]
    assert not good
    assert "manage channels" in text
    stage.discord.add_guild("Another")
    assert "none is trusted" in (await looked(stage))["roles"][1]
