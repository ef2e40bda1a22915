"""Whom a message pings: mentions in its text, as far as they are allowed."""

from __future__ import annotations

import re

from .errors import Json
from .permissions import Permission, in_channel, member_of
from .state import Channel, Guild, Role, User

_USER = re.compile(r"<@!?(\d{15,20})>")
_ROLE = re.compile(r"<@&(\d{15,20})>")
_EVERYONE = re.compile(r"@(everyone|here)\b")


def pings(content: str, allowed: Json | None, channel: Channel, author: User) -> set[str]:
    """The names of those who are pinged: users, roles, ``everyone``, ``here``.

    Args:
        content: The text. Mentions in embeds never ping.
        allowed: ``allowed_mentions``; without it all mentions ping.
        channel: Where it is said.
        author: Who says it; the right to mention everyone counts.
    """
    guild = channel.guild
    if guild is None:
        return set()
    kinds = {"users", "roles", "everyone"} if allowed is None else set(allowed.get("parse") or [])
    member = member_of(guild, author)
    may_all = member is not None and bool(in_channel(member, channel) & Permission.MENTION_EVERYONE)
    found = _users(content, guild, kinds, allowed or {})
    for role in _roles(content, guild, kinds, allowed or {}):
        if role.mentionable or may_all:
            found.add(role.name)
    if "everyone" in kinds and may_all:
        found |= set(_EVERYONE.findall(content))
    return found


def _users(content: str, guild: Guild, kinds: set[str], allowed: Json) -> set[str]:
    named = {int(user) for user in allowed.get("users") or []}
    ids = {int(user) for user in _USER.findall(content)}
    return {
        guild.members[user].name for user in ids & set(guild.members) if "users" in kinds or user in named
    }


def _roles(content: str, guild: Guild, kinds: set[str], allowed: Json) -> list[Role]:
    named = {int(role) for role in allowed.get("roles") or []}
    ids = {int(role) for role in _ROLE.findall(content)}
    return [guild.roles[role] for role in ids & set(guild.roles) if "roles" in kinds or role in named]
