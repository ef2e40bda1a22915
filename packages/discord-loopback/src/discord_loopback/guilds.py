"""Guilds as tests build and change them; the bot hears of every change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .payloads import guild_json
from .routes_guilds import add_role, make_channel, remove_channel, tell_member, tell_role
from .routes_threads import open_by
from .state import (
    CATEGORY,
    FORUM,
    PRIVATE_THREAD,
    PUBLIC_THREAD,
    TEXT,
    Channel,
    Guild,
    Member,
    Overwrite,
    Role,
    User,
)
from .world import World


class GuildDriver:
    """A guild and what its owner does with it."""

    def __init__(self, world: World, name: str, everyone: int, bot_permissions: int) -> None:
        now = world.clock.now()
        guild = self.guild = Guild(world.ids.next(), name, world.owner, now)
        self._world = world
        guild.roles[guild.id] = Role(guild.id, "@everyone", int(everyone), position=0)
        bot_role = Role(world.ids.next(), world.bot.name, int(bot_permissions), managed=True)
        guild.roles[bot_role.id] = bot_role
        guild.members[world.owner.id] = Member(world.owner, guild, now)
        guild.members[world.bot.id] = Member(world.bot, guild, now, [bot_role])
        world.guilds[guild.id] = guild
        world.gateway.emit("GUILD_CREATE", guild_json(guild, world.bot, all_members=False), intent=1)

    @property
    def id(self) -> int:
        """The id of the guild."""
        return self.guild.id

    @property
    def name(self) -> str:
        """The name of the guild."""
        return self.guild.name

    @property
    def bot(self) -> Member:
        """The bot in this guild."""
        return self._world.me(self.guild)

    def leave(self) -> None:
        """The bot is thrown out."""
        del self._world.guilds[self.id]
        self._world.gateway.emit("GUILD_DELETE", {"id": str(self.id)}, intent=1)

    # ---- people

    def add_member(self, name: str, roles: Sequence[Role | str] = (), *, user: User | None = None) -> Member:
        """Somebody joins: a new account of that name, or one that is in another guild already."""
        account = user or self._world.add_user(name)
        member = Member(account, self.guild, self._world.clock.now(), [self._role(role) for role in roles])
        self.guild.members[member.id] = member
        tell_member(self._world, member, "GUILD_MEMBER_ADD")
        return member

    def give(self, member: Member, *roles: Role | str) -> None:
        """Give roles to a member."""
        member.roles += [self._role(role) for role in roles if self._role(role) not in member.roles]
        tell_member(self._world, member)

    def take(self, member: Member, *roles: Role | str) -> None:
        """Take roles from a member."""
        gone = [self._role(role) for role in roles]
        member.roles = [role for role in member.roles if role not in gone]
        tell_member(self._world, member)

    # ---- roles

    def add_role(self, name: str, allowed: int = 0, *, mentionable: bool = False) -> Role:
        """A new role, below all others."""
        role = add_role(self._world, self.guild, name, allowed)
        role.mentionable = mentionable
        return role

    def role(self, name: str) -> Role:
        """A role by its name."""
        return next(role for role in self.guild.roles.values() if role.name == name)

    def has_role(self, name: str) -> bool:
        """Whether there is a role of that name."""
        return any(role.name == name for role in self.guild.roles.values())

    def set_permissions(self, role: Role | str, allowed: int) -> None:
        """Say what a role may do in the whole guild; the bot's has the bot's name, all have ``@everyone``."""
        found = self._role(role)
        found.permissions = int(allowed)
        tell_role(self._world, self.guild, found, "GUILD_ROLE_UPDATE")

    def move_role(self, role: Role | str, position: int) -> None:
        """Put a role higher or lower in the list."""
        found = self._role(role)
        found.position = position
        tell_role(self._world, self.guild, found, "GUILD_ROLE_UPDATE")

    # ---- channels

    def add_text(self, name: str) -> Channel:
        """A new text channel."""
        return self._add(name, TEXT)

    def add_forum(self, name: str) -> Channel:
        """A new forum."""
        return self._add(name, FORUM)

    def add_category(self, name: str) -> Channel:
        """A new category."""
        return self._add(name, CATEGORY)

    def delete_channel(self, channel: Channel) -> None:
        """Somebody deletes a channel or a thread by hand."""
        remove_channel(self._world, channel)

    def channel(self, name: str) -> Channel:
        """A channel by its name."""
        return next(channel for channel in self.guild.channels.values() if channel.name == name)

    @property
    def channels(self) -> Mapping[str, Channel]:
        """All channels by name."""
        return {channel.name: channel for channel in self.guild.channels.values()}

    def set_overwrite(
        self, channel: Channel, target: Role | Member, *, allow: int = 0, deny: int = 0
    ) -> None:
        """Say what a role or a member may do in one channel."""
        channel.overwrites[target.id] = Overwrite(int(isinstance(target, Member)), int(allow), int(deny))
        self._world.tell_channel("CHANNEL_UPDATE", channel)

    # ---- threads

    def open_thread(self, channel: Channel, name: str, owner: Member, *, private: bool = False) -> Channel:
        """Somebody opens a thread of their own."""
        return open_by(self._world, channel, PRIVATE_THREAD if private else PUBLIC_THREAD, name, owner.id)

    def _add(self, name: str, kind: int) -> Channel:
        return make_channel(self._world, self.guild, {"name": name, "type": kind})

    def _role(self, role: Role | str) -> Role:
        return self.role(role) if isinstance(role, str) else role
