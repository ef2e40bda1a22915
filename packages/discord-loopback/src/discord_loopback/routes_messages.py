"""REST: messages of channels, threads and DMs."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import unquote

from .errors import Json, Refusal, unknown
from .messages import check_may_write, remove, rewrite, write
from .payloads import channel_json, message_json
from .permissions import P
from .state import Channel, Message
from .web import Answer, Call, route
from .world import World

NONCE_LASTS = timedelta(minutes=5)


@route("POST", "/channels/{channel}/messages")
async def create_message(call: Call) -> Answer:
    """Write a message."""
    channel = call.world.channel(call.id("channel"))
    check_may_write(call.world, channel, call.body, call.files)
    message = _same(call.world, channel, call.body)
    if message is None:
        message = write(call.world, channel, call.world.bot, call.body, call.files)
    return message_json(message, call.world.cdn)


@route("GET", "/channels/{channel}/messages")
async def list_messages(call: Call) -> Answer:
    """The messages of a channel, the newest first."""
    channel = call.world.channel(call.id("channel"))
    if not call.world.can(channel, P.READ_MESSAGE_HISTORY):
        return []
    found = [message for message in channel.messages.values() if not message.ephemeral]
    if "before" in call.query:
        found = [message for message in found if message.id < int(call.query["before"])]
    limit = int(call.query.get("limit", 50))
    if "after" in call.query:
        found = [message for message in found if message.id > int(call.query["after"])][:limit]
    return [message_json(message, call.world.cdn) for message in found[::-1][:limit]]


@route("GET", "/channels/{channel}/messages/{message}")
async def get_message(call: Call) -> Answer:
    """One message."""
    channel = call.world.channel(call.id("channel"), P.READ_MESSAGE_HISTORY)
    return message_json(_message(call, channel), call.world.cdn)


@route("PATCH", "/channels/{channel}/messages/{message}")
async def edit_message(call: Call) -> Answer:
    """Change a message of one's own."""
    channel = call.world.channel(call.id("channel"))
    message = _message(call, channel)
    if message.author is not call.world.bot:
        raise Refusal(403, 50005, "Cannot edit a message authored by another user")
    if channel.thread is not None and channel.thread.archived:
        raise Refusal(400, 50083, "Thread is archived")
    if call.files:
        call.world.need(channel, P.ATTACH_FILES)
    if call.body.get("embeds"):
        call.world.need(channel, P.EMBED_LINKS)
    return message_json(rewrite(call.world, message, call.body, call.files), call.world.cdn)


@route("DELETE", "/channels/{channel}/messages/{message}")
async def delete_message(call: Call) -> Answer:
    """Delete one's own message, or another's with the right to."""
    channel = call.world.channel(call.id("channel"))
    message = _message(call, channel)
    if message.author is not call.world.bot:
        if channel.guild is None:
            raise Refusal(403, 50003, "Cannot execute action on a DM channel")
        call.world.need(channel, P.MANAGE_MESSAGES)
    remove(call.world, message)
    return None


@route("PUT", "/channels/{channel}/messages/pins/{message}")
async def pin_message(call: Call) -> Answer:
    """Pin a message."""
    world, channel = call.world, call.world.channel(call.id("channel"))
    if not world.can(channel, P.PIN_MESSAGES):
        world.need(channel, P.MANAGE_MESSAGES)
    message = _message(call, channel)
    message.pinned = True
    world.transcript.add("pin", world.bot.name, channel, message_id=message.id, pinned=True)
    world.tell_message("MESSAGE_UPDATE", message)
    return None


@route("PUT", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me")
async def add_reaction(call: Call) -> Answer:
    """React to a message."""
    channel = call.world.channel(call.id("channel"), P.ADD_REACTIONS, P.READ_MESSAGE_HISTORY)
    message = _message(call, channel)
    emoji = unquote(call.path["emoji"])
    message.reactions.setdefault(emoji, set()).add(call.world.bot.id)
    call.world.transcript.add("reaction", call.world.bot.name, channel, message_id=message.id, text=emoji)
    return None


@route("POST", "/users/@me/channels")
async def open_dm(call: Call) -> Answer:
    """Open a conversation; whether the user lets one write shows only then."""
    user = call.world.users.get(int(call.body["recipient_id"]))
    if user is None:
        raise unknown("User")
    if user.bot:
        raise Refusal(403, 50007, "Cannot send messages to this user")
    return channel_json(call.world.dm(user))


def _same(world: World, channel: Channel, body: Json) -> Message | None:
    """With ``enforce_nonce`` a nonce of the last minutes makes no second message: the first one is returned."""
    if not body.get("enforce_nonce") or body.get("nonce") is None:
        return None
    since = world.clock.now() - NONCE_LASTS
    mine = (m for m in channel.messages.values() if m.author is world.bot and m.created_at > since)
    return next((m for m in mine if m.nonce == str(body["nonce"])), None)


def _message(call: Call, channel: Channel) -> Message:
    return call.world.message(channel, call.id("message"))
