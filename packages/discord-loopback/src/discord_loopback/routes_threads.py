"""REST: threads, forum posts and who is in them."""

from __future__ import annotations

from collections.abc import Sequence

from . import permissions
from .errors import Json, Refusal, invalid_form, missing_access, missing_permissions, unknown
from .limits import check_thread_name
from .messages import write
from .payloads import message_json, stamp, thread_json, thread_member_json, user_json
from .permissions import P
from .state import FORUM, PRIVATE_THREAD, PUBLIC_THREAD, TEXT, Channel, Guild, ThreadState, thread_parts
from .web import Answer, Call, route
from .world import World

_ARCHIVE_MINUTES = (60, 1440, 4320, 10080)


@route("POST", "/channels/{channel}/threads")
async def create_thread(call: Call) -> Answer:
    """Open a thread without a message, or a post in a forum."""
    parent = call.world.channel(call.id("channel"))
    if parent.kind == FORUM:
        return _create_post(call, parent)
    kind = call.body.get("type", PRIVATE_THREAD)
    if parent.kind != TEXT or kind not in (PUBLIC_THREAD, PRIVATE_THREAD):
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    call.world.need(parent, P.CREATE_PRIVATE_THREADS if kind == PRIVATE_THREAD else P.CREATE_PUBLIC_THREADS)
    return thread_json(_open(call.world, parent, kind, call.body), viewer=call.world.bot)


@route("POST", "/channels/{channel}/messages/{message}/threads")
async def create_thread_from_message(call: Call) -> Answer:
    """Open a thread on a message; it has the message's id."""
    parent = call.world.channel(call.id("channel"), P.CREATE_PUBLIC_THREADS)
    message = call.world.message(parent, call.id("message"))
    if parent.kind != TEXT:
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    if message.thread is not None:
        raise Refusal(400, 160004, "A thread has already been created for this message")
    thread = _open(call.world, parent, PUBLIC_THREAD, call.body, thread_id=message.id)
    message.thread = thread
    call.world.tell_message("MESSAGE_UPDATE", message)
    return thread_json(thread, viewer=call.world.bot)


@route("PUT", "/channels/{channel}/thread-members/{user}")
async def add_thread_member(call: Call) -> Answer:
    """Add somebody, or oneself with ``@me``."""
    channel = _thread(call)
    thread, guild, parent = thread_parts(channel)
    if call.path["user"] == "@me":
        _join(call.world, channel, call.world.bot.id)
        return None
    call.world.need(channel, P.SEND_MESSAGES_IN_THREADS)
    mine = thread.owner_id == call.world.bot.id or call.world.can(channel, P.MANAGE_THREADS)
    if channel.private and not thread.invitable and not mine:
        raise missing_permissions()
    if thread.archived:
        raise Refusal(400, 50083, "Thread is archived")
    user = call.world.member(guild, call.id("user")).user
    if not permissions.sees(user, parent):
        raise missing_access()
    _join(call.world, channel, user.id)
    return None


@route("DELETE", "/channels/{channel}/thread-members/{user}")
async def remove_thread_member(call: Call) -> Answer:
    """Remove somebody, or leave with ``@me``."""
    channel = _thread(call)
    thread, _, _ = thread_parts(channel)
    own = call.path["user"] == "@me"
    user_id = call.world.bot.id if own else call.id("user")
    if not own and not (channel.private and thread.owner_id == call.world.bot.id):
        call.world.need(channel, P.MANAGE_THREADS)
    if thread.members.pop(user_id, None) is not None:
        name = call.world.users[user_id].name
        call.world.transcript.add("left", name, channel)
        _tell_members(call.world, channel, removed=[user_id])
    return None


@route("GET", "/channels/{channel}/thread-members")
async def list_thread_members(call: Call) -> Answer:
    """Who is in a thread."""
    channel = _thread(call)
    return [thread_member_json(channel, user) for user in thread_parts(channel)[0].members]


@route("GET", "/guilds/{guild}/threads/active")
async def list_active_threads(call: Call) -> Answer:
    """The threads of a guild that are open and that the bot sees."""
    guild = call.world.guild(call.id("guild"))
    bot = call.world.bot
    threads = [t for t in _active(guild) if permissions.sees(bot, t)]
    members = [thread_member_json(t, bot.id) for t in threads if t.thread and bot.id in t.thread.members]
    return {"threads": [thread_json(t, viewer=bot) for t in threads], "members": members}


@route("GET", "/channels/{channel}/threads/archived/public")
async def list_archived_threads(call: Call) -> Answer:
    """The public threads of a channel that are archived, in one page."""
    parent, bot = call.world.channel(call.id("channel")), call.world.bot
    assert parent.guild is not None
    mine = [each for each in parent.guild.threads.values() if each.parent is parent]
    threads = [each for each in mine if each.thread and each.thread.archived and permissions.sees(bot, each)]
    members = [thread_member_json(t, bot.id) for t in threads if t.thread and bot.id in t.thread.members]
    return {"threads": [thread_json(t, viewer=bot) for t in threads], "members": members, "has_more": False}


def edit_thread(world: World, channel: Channel, body: Json) -> Json:
    """Rename, archive or lock a thread.

    An archived thread lets nothing be changed but that it is archived or locked.
    """
    thread, guild, _ = thread_parts(channel)
    manages = world.can(channel, P.MANAGE_THREADS)
    if not manages and (thread.owner_id != world.bot.id or thread.locked or body.get("locked")):
        raise missing_permissions()
    opens = body.get("archived") is False
    if thread.archived and not opens and set(body) - {"archived", "locked"}:
        raise Refusal(400, 50083, "Thread is archived")
    if "name" in body:
        check_thread_name(body["name"])
        channel.name = body["name"]
    if "archived" in body and body["archived"] != thread.archived:
        if opens:
            _check_room(world, guild)
        thread.archived = body["archived"]
        thread.changed_at = world.clock.now()
    thread.locked = body.get("locked", thread.locked)
    thread.invitable = body.get("invitable", thread.invitable)
    thread.auto_archive_minutes = _minutes(body.get("auto_archive_duration") or thread.auto_archive_minutes)
    channel.slowmode_s = body.get("rate_limit_per_user") or channel.slowmode_s
    channel.flags = body.get("flags", channel.flags)
    world.transcript.add(
        "thread_edit", world.bot.name, channel, archived=thread.archived, locked=thread.locked
    )
    world.tell_channel("THREAD_UPDATE", channel)
    return thread_json(channel, viewer=world.bot)


def open_by(world: World, parent: Channel, kind: int, name: str, owner_id: int) -> Channel:
    """A thread that somebody opens."""
    body = {"name": name}
    return _open(world, parent, kind, body, owner_id=owner_id)


def archive_idle(world: World) -> None:
    """Archive every thread in which nothing happened for as long as it is set to wait."""
    for guild in world.guilds.values():
        for channel in _active(guild):
            thread, _, _ = thread_parts(channel)
            last = thread.last_activity or thread.changed_at
            if (world.clock.now() - last).total_seconds() >= thread.auto_archive_minutes * 60:
                thread.archived = True
                thread.changed_at = world.clock.now()
                world.tell_channel("THREAD_UPDATE", channel)


def _create_post(call: Call, forum: Channel) -> Json:
    world = call.world
    message = call.body.get("message")
    if not isinstance(message, dict):
        raise invalid_form("message", "BASE_TYPE_REQUIRED", "This field is required")
    world.need(forum, P.SEND_MESSAGES)
    if call.files:
        world.need(forum, P.ATTACH_FILES)
    if message.get("embeds"):
        world.need(forum, P.EMBED_LINKS)
    if call.body.get("applied_tags"):  # forums have no tags here
        raise invalid_form("applied_tags", "INVALID_TAG", "Unknown tag, or more than 5")
    thread = _open(world, forum, PUBLIC_THREAD, call.body)
    try:
        first = write(world, thread, world.bot, message, call.files)
    except Refusal:
        assert forum.guild is not None
        del forum.guild.threads[thread.id]
        world.gateway.emit("THREAD_DELETE", thread_json(thread), intent=1, channel=forum)
        raise
    return thread_json(thread, viewer=world.bot) | {"message": message_json(first, world.cdn)}


def _open(
    world: World,
    parent: Channel,
    kind: int,
    body: Json,
    *,
    thread_id: int | None = None,
    owner_id: int | None = None,
) -> Channel:
    check_thread_name(body.get("name"))
    assert parent.guild is not None
    _check_room(world, parent.guild)
    owner = owner_id or world.bot.id
    state = ThreadState(
        owner,
        world.clock.now(),
        invitable=body.get("invitable", True),
        auto_archive_minutes=_minutes(body.get("auto_archive_duration") or 1440),
        members={owner: world.clock.now()},
    )
    channel = Channel(thread_id or world.ids.next(), kind, body["name"], parent.guild, parent, thread=state)
    parent.guild.threads[channel.id] = channel
    world.transcript.add(
        "thread", world.users[owner].name, channel, parent=parent.name, private=channel.private
    )
    world.tell_channel("THREAD_CREATE", channel, newly_created=True)
    return channel


def _check_room(world: World, guild: Guild) -> None:
    if len(_active(guild)) >= world.sizes.active_threads:
        raise Refusal(400, 160006, "Maximum number of active threads reached")


def _active(guild: Guild) -> list[Channel]:
    return [t for t in guild.threads.values() if t.thread and not t.thread.archived]


def _minutes(minutes: int) -> int:
    if minutes not in _ARCHIVE_MINUTES:
        message = f"Value must be one of {_ARCHIVE_MINUTES}."
        raise invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", message)
    return minutes


def _thread(call: Call) -> Channel:
    channel = call.world.channel(call.id("channel"))
    if channel.thread is None:
        raise unknown("Channel")
    return channel


def _join(world: World, channel: Channel, user_id: int) -> None:
    thread, _, _ = thread_parts(channel)
    if user_id not in thread.members:
        thread.members[user_id] = world.clock.now()
        world.transcript.add("joined", world.users[user_id].name, channel)
        _tell_members(world, channel, added=[user_id])


def _tell_members(
    world: World, channel: Channel, *, added: Sequence[int] = (), removed: Sequence[int] = ()
) -> None:
    thread, guild, _ = thread_parts(channel)
    joined = [
        thread_member_json(channel, user) | {"member": {"user": user_json(world.users[user])}}
        for user in added
    ]
    data: Json = {
        "id": str(channel.id),
        "guild_id": str(guild.id),
        "member_count": len(thread.members),
        "added_members": [entry | {"join_timestamp": stamp(world.clock.now())} for entry in joined],
        "removed_member_ids": [str(user) for user in removed],
    }
    world.gateway.emit("THREAD_MEMBERS_UPDATE", data, intent=1, channel=channel)
    world.changed()
