"""Writing, changing and deleting messages, by whatever way they come."""

from __future__ import annotations

from . import permissions
from .errors import Json, Refusal
from .limits import check_message
from .mentions import pings
from .permissions import P
from .state import (
    COMPONENTS_V2,
    DM,
    EPHEMERAL,
    LOADING,
    Attachment,
    Channel,
    Message,
    User,
    thread_parts,
    walk,
)
from .web import Upload
from .world import World


def write(
    world: World,
    channel: Channel,
    author: User,
    body: Json,
    files: list[Upload],
    *,
    private_to: User | None = None,
    webhook: bool = False,
    loading: bool = False,
) -> Message:
    """Put a message into a channel and tell everybody; limits are checked, permissions are not."""
    check_message(body, world.sizes, [len(file.data) for file in files])
    if not loading and not any(body.get(key) for key in ("content", "embeds", "components")) and not files:
        raise Refusal(400, 50006, "Cannot send an empty message")
    flags = (body.get("flags") or 0) & (EPHEMERAL | COMPONENTS_V2) | (LOADING if loading else 0)
    content = body.get("content") or ""
    message = Message(
        world.ids.next(),
        channel,
        author,
        world.clock.now(),
        content=content,
        embeds=body.get("embeds") or [],
        components=numbered(body.get("components") or []),
        attachments=_attach(world, channel, body, files),
        flags=flags | (EPHEMERAL if private_to else 0),
        webhook=webhook,
        ephemeral_to=private_to,
        reference=_reference(channel, body),
        nonce=str(body["nonce"]) if body.get("nonce") is not None else None,
    )
    if content and author is world.bot:
        world.allowed_mentions.append(body.get("allowed_mentions"))
    message.pings = pings(content, body.get("allowed_mentions"), channel, author)
    channel.messages[message.id] = message
    if channel.thread is not None:
        _enter_thread(world, channel, message)
    world.transcript.message("thinking" if loading else "message", message, pings=sorted(message.pings))
    world.tell_message("MESSAGE_CREATE", message)
    return message


def rewrite(world: World, message: Message, body: Json, files: list[Upload]) -> Message:
    """Change a message in place; what the body does not name stays."""
    merged = {
        "content": body.get("content", message.content),
        "embeds": body.get("embeds", message.embeds),
        "components": body.get("components", message.components),
        "flags": (body.get("flags") or 0) | message.flags & COMPONENTS_V2,
    }
    if body.get("content") and message.author is world.bot:
        world.allowed_mentions.append(body.get("allowed_mentions"))
    check_message(merged, world.sizes, [len(file.data) for file in files])
    kept = message.attachments
    if body.get("attachments") is not None:
        ids = {int(entry["id"]) for entry in body["attachments"]}
        kept = [attachment for attachment in kept if attachment.id in ids]
    attachments = kept + _attach(world, message.channel, body, files)
    if not merged["content"] and not merged["embeds"] and not merged["components"] and not attachments:
        raise Refusal(400, 50006, "Cannot send an empty message")
    was_loading = message.loading
    message.versions.append(message.content)
    message.content = merged["content"] or ""
    message.embeds = merged["embeds"] or []
    message.components = numbered(merged["components"] or [])
    message.attachments = attachments
    message.flags = (message.flags | merged["flags"] & COMPONENTS_V2) & ~LOADING
    message.edited_at = None if was_loading else world.clock.now()
    world.transcript.message("message" if was_loading else "edit", message)
    world.tell_message("MESSAGE_UPDATE", message)
    return message


def remove(world: World, message: Message) -> None:
    """Delete a message."""
    del message.channel.messages[message.id]
    message.deleted = True
    world.transcript.message("delete", message)
    tell_deleted(world, message)


def tell_deleted(world: World, message: Message) -> None:
    """Tell the bot that a message is gone."""
    channel = message.channel
    data: Json = {"id": str(message.id), "channel_id": str(channel.id)}
    if channel.guild is not None:
        data["guild_id"] = str(channel.guild.id)
    intent = 1 << 12 if channel.guild is None else 1 << 9
    if not message.ephemeral:
        world.gateway.emit("MESSAGE_DELETE", data, intent=intent, channel=channel)
    world.changed()


def check_may_write(world: World, channel: Channel, body: Json, files: list[Upload]) -> None:
    """Refuse a message of the bot where it may not write, or not that.

    A message to an archived thread opens it again, unless it is locked.
    """
    if channel.kind not in (0, DM, 11, 12):
        raise Refusal(400, 50008, "Cannot send messages in a non-text channel")
    if channel.recipient is not None and channel.recipient.dms_closed:
        raise Refusal(403, 50007, "Cannot send messages to this user")
    world.need(channel, P.SEND_MESSAGES_IN_THREADS if channel.thread else P.SEND_MESSAGES)
    if files:
        world.need(channel, P.ATTACH_FILES)
    if body.get("embeds"):
        world.need(channel, P.EMBED_LINKS)
    reopen(world, channel, manages=world.can(channel, P.MANAGE_THREADS))


def reopen(world: World, channel: Channel, *, manages: bool) -> None:
    """Open an archived thread again before somebody writes in it; a locked one only for who manages threads."""
    thread = channel.thread
    if thread is not None and thread.archived:
        if thread.locked and not manages:
            raise Refusal(400, 50083, "Thread is archived")
        thread.archived = False
        thread.changed_at = world.clock.now()
        world.tell_channel("THREAD_UPDATE", channel)


def numbered(components: list[Json]) -> list[Json]:
    """Components with the ids that Discord gives to each."""
    for number, part in enumerate(walk(components), 1):
        part.setdefault("id", number)
    return components


def _attach(world: World, channel: Channel, body: Json, files: list[Upload]) -> list[Attachment]:
    about = {str(entry["id"]): entry for entry in body.get("attachments") or []}
    kept = []
    for file in files:
        entry = about.get(str(file.index), {})
        attachment = world.attachment(channel.id, entry.get("filename") or file.filename, file.data)
        attachment.description = entry.get("description")
        kept.append(attachment)
    return kept


def _reference(channel: Channel, body: Json) -> Json | None:
    reference: Json | None = body.get("message_reference")
    if not reference:
        return None
    if int(reference["message_id"]) not in channel.messages and reference.get("fail_if_not_exists", True):
        raise Refusal(
            400, 50035, "Invalid Form Body", {"message_reference": {"_errors": [_UNKNOWN_REFERENCE]}}
        )
    return {"channel_id": str(channel.id)} | reference


_UNKNOWN_REFERENCE = {"code": "REPLIES_UNKNOWN_MESSAGE", "message": "Unknown message"}


def _enter_thread(world: World, channel: Channel, message: Message) -> None:
    """Who writes in a thread or is mentioned in it is added to it, as Discord does."""
    thread, guild, parent = thread_parts(channel)
    thread.last_activity = world.clock.now()
    thread.members.setdefault(message.author.id, world.clock.now())
    for member in guild.members.values():
        if member.name in message.pings and permissions.sees(member.user, parent):
            thread.members.setdefault(member.id, world.clock.now())
