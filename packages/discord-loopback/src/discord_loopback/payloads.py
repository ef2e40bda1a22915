"""The JSON in which Discord tells about its things: every field that discord.py reads."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from . import permissions
from .errors import Json
from .state import CATEGORY, DM, FORUM, Channel, Guild, Member, Message, Role, User, thread_parts

if TYPE_CHECKING:
    from .cdn import Cdn


def stamp(moment: datetime | None) -> str | None:
    """A time as Discord writes it."""
    return None if moment is None else moment.isoformat()


def user_json(user: User) -> Json:
    """A user."""
    return {
        "id": str(user.id),
        "username": user.name,
        "discriminator": "0",
        "global_name": user.global_name,
        "avatar": None,
        "bot": user.bot,
        "public_flags": 0,
    }


def member_json(member: Member, *, channel: Channel | None = None) -> Json:
    """A member; with a channel also what they may do there."""
    data: Json = {
        "user": user_json(member.user),
        "roles": [str(role.id) for role in member.roles],
        "nick": member.nick,
        "joined_at": stamp(member.joined_at),
        "premium_since": None,
        "avatar": None,
        "banner": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": None,
    }
    if channel is not None:
        data["permissions"] = str(int(permissions.in_channel(member, channel)))
    return data


def role_json(role: Role) -> Json:
    """A role."""
    return {
        "id": str(role.id),
        "name": role.name,
        "permissions": str(role.permissions),
        "position": role.position,
        "color": role.color,
        "colors": {"primary_color": role.color, "secondary_color": None, "tertiary_color": None},
        "hoist": role.hoist,
        "managed": role.managed,
        "mentionable": role.mentionable,
        "icon": None,
        "unicode_emoji": None,
        "flags": 0,
    }


def channel_json(channel: Channel, *, viewer: User | None = None) -> Json:
    """A channel, a thread or a DM."""
    if channel.kind == DM:
        recipients = [user_json(channel.recipient)] if channel.recipient else []
        return {
            "id": str(channel.id),
            "type": DM,
            "recipients": recipients,
            "last_message_id": _last(channel),
        }
    if channel.thread is not None:
        return thread_json(channel, viewer=viewer)
    data: Json = {
        "id": str(channel.id),
        "type": channel.kind,
        "guild_id": str(channel.guild.id) if channel.guild else None,
        "name": channel.name,
        "position": channel.position,
        "parent_id": str(channel.parent.id) if channel.parent else None,
        "nsfw": False,
        "flags": channel.flags,
        "permission_overwrites": [
            {"id": str(target), "type": rule.kind, "allow": str(rule.allow), "deny": str(rule.deny)}
            for target, rule in channel.overwrites.items()
        ],
    }
    if channel.kind != CATEGORY:
        data |= {
            "topic": channel.topic,
            "rate_limit_per_user": channel.slowmode_s,
            "last_message_id": _last(channel),
        }
    if channel.kind == FORUM:
        data |= {"available_tags": [], "default_reaction_emoji": None, "default_forum_layout": 0}
        data |= {"default_sort_order": None, "default_thread_rate_limit_per_user": 0, "template": ""}
    return data


def thread_json(channel: Channel, *, viewer: User | None = None) -> Json:
    """A thread, with the membership of who asks if they have joined."""
    thread, guild, parent = thread_parts(channel)
    data: Json = {
        "id": str(channel.id),
        "type": channel.kind,
        "guild_id": str(guild.id),
        "parent_id": str(parent.id),
        "owner_id": str(thread.owner_id),
        "name": channel.name,
        "message_count": len(channel.messages),
        "total_message_sent": len(channel.messages),
        "member_count": min(len(thread.members), 50),
        "rate_limit_per_user": channel.slowmode_s,
        "last_message_id": _last(channel),
        "flags": channel.flags,
        "applied_tags": [],
        "thread_metadata": {
            "archived": thread.archived,
            "locked": thread.locked,
            "invitable": thread.invitable,
            "auto_archive_duration": thread.auto_archive_minutes,
            "archive_timestamp": stamp(thread.changed_at),
            "create_timestamp": stamp(thread.changed_at),
        },
    }
    if viewer is not None and viewer.id in thread.members:
        data["member"] = thread_member_json(channel, viewer.id)
    return data


def thread_member_json(channel: Channel, user_id: int) -> Json:
    """The membership of a user in a thread."""
    assert channel.thread is not None
    joined = stamp(channel.thread.members[user_id])
    return {"id": str(channel.id), "user_id": str(user_id), "join_timestamp": joined, "flags": 0}


def guild_json(guild: Guild, viewer: User, *, all_members: bool) -> Json:
    """A guild as GUILD_CREATE tells it: without the members' intent only who asks is in the list."""
    members = list(guild.members.values()) if all_members else [guild.members[viewer.id]]
    data: Json = {
        "id": str(guild.id),
        "name": guild.name,
        "icon": None,
        "owner_id": str(guild.owner.id),
        "joined_at": stamp(guild.created_at),
        "large": False,
        "unavailable": False,
        "member_count": len(guild.members),
        "roles": [role_json(role) for role in guild.roles.values()],
        "channels": [channel_json(c) for c in guild.channels.values() if permissions.sees(viewer, c)],
        "threads": [
            thread_json(t, viewer=viewer)
            for t in guild.threads.values()
            if t.thread and not t.thread.archived and permissions.sees(viewer, t)
        ],
        "members": [member_json(member) for member in members],
        "features": [],
        "preferred_locale": "en-US",
    }
    return data | {key: [] for key in _EMPTY_LISTS} | dict.fromkeys(_ZEROS, 0)


def message_json(message: Message, cdn: Cdn) -> Json:
    """A message; the addresses of its files are good for a day from now."""
    data: Json = {
        "id": str(message.id),
        "channel_id": str(message.channel.id),
        "type": message.kind,
        "author": user_json(message.author),
        "content": message.content,
        "embeds": [embed | {"type": "rich"} for embed in message.embeds],
        "components": message.components,
        "attachments": [cdn.attachment_json(attachment) for attachment in message.attachments],
        "timestamp": stamp(message.created_at),
        "edited_timestamp": stamp(message.edited_at),
        "tts": False,
        "mention_everyone": "everyone" in message.pings,
        "mentions": [],
        "mention_roles": [],
        "pinned": message.pinned,
        "flags": message.flags,
    }
    if message.webhook:
        data |= {"webhook_id": str(message.author.id), "application_id": str(message.author.id)}
    if message.reference:
        data["message_reference"] = message.reference
    if message.thread is not None:
        data["thread"] = thread_json(message.thread)
    return data


_EMPTY_LISTS = (
    "emojis",
    "stickers",
    "presences",
    "voice_states",
    "stage_instances",
    "guild_scheduled_events",
    "soundboard_sounds",
)
_ZEROS = (
    "afk_timeout",
    "verification_level",
    "default_message_notifications",
    "explicit_content_filter",
    "mfa_level",
    "system_channel_flags",
    "premium_tier",
    "nsfw_level",
)


def _last(channel: Channel) -> str | None:
    return str(max(channel.messages)) if channel.messages else None
