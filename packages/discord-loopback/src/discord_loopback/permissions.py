"""Who may do what where: roles, overwrites of channels, threads."""

from __future__ import annotations

from enum import IntFlag

from .state import Channel, Guild, Member, Role, User


class Permission(IntFlag):
    """The permissions that the loopback Discord knows, with Discord's bits."""

    ADMINISTRATOR = 1 << 3
    MANAGE_CHANNELS = 1 << 4
    MANAGE_GUILD = 1 << 5
    ADD_REACTIONS = 1 << 6
    VIEW_CHANNEL = 1 << 10
    SEND_MESSAGES = 1 << 11
    MANAGE_MESSAGES = 1 << 13
    EMBED_LINKS = 1 << 14
    ATTACH_FILES = 1 << 15
    READ_MESSAGE_HISTORY = 1 << 16
    MENTION_EVERYONE = 1 << 17
    CHANGE_NICKNAME = 1 << 26
    MANAGE_NICKNAMES = 1 << 27
    MANAGE_ROLES = 1 << 28
    USE_APPLICATION_COMMANDS = 1 << 31
    MANAGE_THREADS = 1 << 34
    CREATE_PUBLIC_THREADS = 1 << 35
    CREATE_PRIVATE_THREADS = 1 << 36
    SEND_MESSAGES_IN_THREADS = 1 << 38
    PIN_MESSAGES = 1 << 51


P = Permission
"""The short name."""
ALL = Permission((1 << 53) - 1)
EVERYONE = (
    P.VIEW_CHANNEL
    | P.SEND_MESSAGES
    | P.SEND_MESSAGES_IN_THREADS
    | P.CREATE_PUBLIC_THREADS
    | P.CREATE_PRIVATE_THREADS
    | P.ADD_REACTIONS
    | P.EMBED_LINKS
    | P.ATTACH_FILES
    | P.READ_MESSAGE_HISTORY
    | P.CHANGE_NICKNAME
    | P.USE_APPLICATION_COMMANDS
)
"""What @everyone has in a new guild."""

BOT = EVERYONE | P.MANAGE_CHANNELS | P.MANAGE_ROLES | P.MANAGE_THREADS | P.MANAGE_MESSAGES | P.PIN_MESSAGES
"""What the bot's own role has unless a test says otherwise."""


def in_guild(member: Member) -> Permission:
    """What the roles of a member allow before any channel has its say."""
    if member.user.id == member.guild.owner.id:
        return ALL
    allowed = Permission(member.guild.everyone.permissions)
    for role in member.roles:
        allowed |= Permission(role.permissions)
    return ALL if allowed & P.ADMINISTRATOR else allowed


def in_channel(member: Member, channel: Channel) -> Permission:
    """What a member may do in a channel; a thread has the rules of its parent.

    Without the right to see the channel there is none at all.
    """
    allowed = in_guild(member)
    if allowed == ALL:
        return ALL
    place = channel.parent if channel.thread is not None and channel.parent is not None else channel
    allowed = _overwritten(allowed, place, [member.guild.id])
    allowed = _overwritten(allowed, place, [role.id for role in member.roles])
    allowed = _overwritten(allowed, place, [member.user.id])
    if not allowed & P.VIEW_CHANNEL or not _let_into_thread(member, channel, allowed):
        return Permission(0)
    return allowed


def sees(user: User, channel: Channel) -> bool:
    """Whether a user sees a channel, a thread or a DM."""
    if channel.guild is None:
        return user.bot or channel.recipient is user
    member = channel.guild.members.get(user.id)
    return member is not None and bool(in_channel(member, channel) & P.VIEW_CHANNEL)


def top_role(member: Member) -> int:
    """The position of a member's highest role."""
    return max((role.position for role in member.roles), default=0)


def may_manage_role(member: Member, role: Role) -> bool:
    """Whether a member may give, take or change a role: it must be below their own highest."""
    return bool(in_guild(member) & P.MANAGE_ROLES) and role.position < top_role(member)


def member_of(guild: Guild, user: User) -> Member | None:
    """The membership of a user."""
    return guild.members.get(user.id)


def _overwritten(allowed: Permission, channel: Channel, targets: list[int]) -> Permission:
    found = [channel.overwrites[target] for target in targets if target in channel.overwrites]
    for overwrite in found:
        allowed &= ~Permission(overwrite.deny)
    for overwrite in found:
        allowed |= Permission(overwrite.allow)
    return allowed


def _let_into_thread(member: Member, channel: Channel, allowed: Permission) -> bool:
    if channel.thread is None or channel.kind != 12:
        return True
    return member.user.id in channel.thread.members or bool(allowed & P.MANAGE_THREADS)
