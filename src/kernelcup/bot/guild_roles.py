"""Platform roles from guild roles, for guilds that the operator trusts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import discord

from kernelcup.app.people import accounts
from kernelcup.bot import guild_setup
from kernelcup.bot.api import SERVICE
from kernelcup.bot.messages.replies import think, who
from kernelcup.domain import Role
from kernelcup.domain.answers import User
from kernelcup.errors import Forbidden, KernelCupError, SignInNeeded

if TYPE_CHECKING:
    from kernelcup.bot.context import Parts

logger = logging.getLogger(__name__)

RANKS = ("participant", "creator", "admin")
GIVEN = "role:"


async def begin(parts: Parts, interaction: discord.Interaction) -> None:
    """Acknowledge, then give the person the platform role from this guild."""
    await think(interaction)
    await ensure(parts, interaction)


async def ensure(parts: Parts, interaction: discord.Interaction) -> None:
    """Give a person the platform role for their guild roles, and take back a lost one.

    Commands for creators and admins call this first. Only roles that the bot gave are taken back.
    """
    member = interaction.user
    if interaction.guild is None or not isinstance(member, discord.Member):
        return
    if not trusts(parts, interaction.client, interaction.guild.id):
        return
    me = await parts.api.call(accounts.get_me, who(interaction))
    await settle(parts, interaction.user.id, me, wanted(member))


async def require(parts: Parts, interaction: discord.Interaction, role: str) -> None:
    """Raise ``Forbidden`` unless the person has a platform role, before asking them anything else."""
    me = await parts.api.call(accounts.get_me, who(interaction))
    if RANKS.index(me.role) < RANKS.index(role):
        raise Forbidden(f"This needs the role {role}; {me.name} is {me.role}.")


def wanted(member: discord.Member) -> str:
    """Return the platform role for a member's guild roles."""
    names = {role.name for role in member.roles}
    if guild_setup.ADMIN_ROLE in names:
        return "admin"
    return "creator" if guild_setup.CREATOR_ROLE in names else "participant"


def trusts(parts: Parts, client: discord.Client, guild_id: int) -> bool:
    """Return whether a guild's roles count: it is named in the settings, or the only guild."""
    named = parts.config.role_guilds
    return guild_id in named if named else len(client.guilds) == 1


async def settle(parts: Parts, user_id: int, me: User, role: str) -> None:
    """Raise a user to a role, or take back a role that a guild gave earlier."""
    given = parts.memory.get(f"{GIVEN}{user_id}")
    now = me.role.value
    if RANKS.index(role) > RANKS.index(now):
        before = given["before"] if given else now
        parts.memory.put(f"{GIVEN}{user_id}", {"user": me.name, "before": before, "role": role})
    elif given and now == given["role"] and RANKS.index(role) < RANKS.index(now):
        role = max(role, given["before"], key=RANKS.index)
        kept = role != given["before"]
        parts.memory.put(f"{GIVEN}{user_id}", {**given, "role": role} if kept else None)
    else:
        return
    try:
        await parts.api.call(accounts.change, SERVICE, name=me.name, new_name=None, role=Role(role))
    except (Forbidden, SignInNeeded) as error:
        logger.warning("the bot's token may not give roles: %s", error)


async def review_given(parts: Parts, client: discord.Client) -> None:
    """Take back roles from users who have lost them in every trusted guild. Runs periodically."""
    for name, given in parts.memory.all_under(GIVEN).items():
        user_id = int(name.removeprefix(GIVEN))
        try:
            role = await _role_in_guilds(parts, client, user_id)
            user = await parts.api.call(accounts.get_user, SERVICE, name=given["user"])
            await settle(parts, user_id, user, role)
        except (discord.HTTPException, KernelCupError) as error:
            logger.warning("the roles of %s could not be checked: %s", user_id, error)


async def _role_in_guilds(parts: Parts, client: discord.Client, user_id: int) -> str:
    roles = ["participant"]
    for guild in client.guilds:
        if trusts(parts, client, guild.id):
            try:
                roles.append(wanted(await guild.fetch_member(user_id)))
            except discord.NotFound:
                continue
    return max(roles, key=RANKS.index)
