"""REST: guilds, their channels, roles and members."""

from __future__ import annotations

from . import permissions
from .errors import Json, missing_permissions, unknown
from .limits import check_length
from .payloads import channel_json, guild_json, member_json, role_json, user_json
from .permissions import P
from .routes_threads import edit_thread
from .state import Channel, Guild, Member, Overwrite, Role
from .web import Answer, Call, route
from .world import World

_ROLE_FIELDS = ("name", "color", "hoist", "mentionable")


@route("GET", "/guilds/{guild}")
async def get_guild(call: Call) -> Answer:
    """A guild."""
    return guild_json(call.world.guild(call.id("guild")), call.world.bot, all_members=False)


@route("GET", "/guilds/{guild}/channels")
async def list_channels(call: Call) -> Answer:
    """All channels of a guild."""
    return [channel_json(channel) for channel in call.world.guild(call.id("guild")).channels.values()]


@route("POST", "/guilds/{guild}/channels")
async def create_channel(call: Call) -> Answer:
    """Make a channel, a category or a forum."""
    guild = call.world.guild(call.id("guild"))
    call.world.need_in_guild(guild, P.MANAGE_CHANNELS)
    return channel_json(make_channel(call.world, guild, call.body, by=call.world.me(guild)))


@route("GET", "/channels/{channel}")
async def get_channel(call: Call) -> Answer:
    """A channel, a thread or a DM."""
    return channel_json(call.world.channel(call.id("channel")), viewer=call.world.bot)


@route("PATCH", "/channels/{channel}")
async def edit_channel(call: Call) -> Answer:
    """Change a channel or a thread."""
    channel = call.world.channel(call.id("channel"))
    if channel.thread is not None:
        return edit_thread(call.world, channel, call.body)
    call.world.need(channel, P.MANAGE_CHANNELS)
    assert channel.guild is not None
    _apply(call.world, channel, channel.guild, call.body, call.world.me(channel.guild))
    call.world.tell_channel("CHANNEL_UPDATE", channel)
    return channel_json(channel)


@route("DELETE", "/channels/{channel}")
async def delete_channel(call: Call) -> Answer:
    """Delete a channel or a thread."""
    channel = call.world.channel(call.id("channel"))
    call.world.need(channel, P.MANAGE_THREADS if channel.thread else P.MANAGE_CHANNELS)
    data = channel_json(channel)
    remove_channel(call.world, channel)
    return data


@route("POST", "/guilds/{guild}/roles")
async def create_role(call: Call) -> Answer:
    """Make a role; nobody gives a permission that they do not have."""
    world = call.world
    guild = world.guild(call.id("guild"))
    world.need_in_guild(guild, P.MANAGE_ROLES)
    wanted = P(int(call.body.get("permissions") or 0))
    if wanted & ~permissions.in_guild(world.me(guild)):
        raise missing_permissions()
    check_length("name", call.body.get("name"), 100)
    role = add_role(world, guild, call.body.get("name") or "new role", wanted)
    _set_role(role, call.body)
    world.transcript.add("role", world.bot.name, _any_channel(guild), text=role.name)
    return role_json(role)


@route("PATCH", "/guilds/{guild}/roles/{role}")
async def edit_role(call: Call) -> Answer:
    """Change a role that is below the bot's highest."""
    guild, role = _managed_role(call)
    _set_role(role, call.body)
    if "permissions" in call.body:
        role.permissions = int(call.body["permissions"] or 0)
    tell_role(call.world, guild, role, "GUILD_ROLE_UPDATE")
    return role_json(role)


@route("GET", "/guilds/{guild}/members/{user}")
async def get_member(call: Call) -> Answer:
    """A member."""
    return member_json(call.world.member(call.world.guild(call.id("guild")), call.id("user")))


@route("PUT", "/guilds/{guild}/members/{user}/roles/{role}")
async def give_role(call: Call) -> Answer:
    """Give a role to a member."""
    guild, role = _managed_role(call)
    member = call.world.member(guild, call.id("user"))
    if role not in member.roles:
        member.roles.append(role)
        tell_member(call.world, member)
    return None


@route("DELETE", "/guilds/{guild}/members/{user}/roles/{role}")
async def take_role(call: Call) -> Answer:
    """Take a role from a member."""
    guild, role = _managed_role(call)
    member = call.world.member(guild, call.id("user"))
    member.roles = [other for other in member.roles if other is not role]
    tell_member(call.world, member)
    return None


@route("PATCH", "/guilds/{guild}/members/@me")
async def edit_me(call: Call) -> Answer:
    """Change one's own name in a guild."""
    guild = call.world.guild(call.id("guild"))
    if "nick" in call.body:
        call.world.need_in_guild(guild, P.CHANGE_NICKNAME)
        check_length("nick", call.body["nick"], 32)
        call.world.me(guild).nick = call.body["nick"]
        tell_member(call.world, call.world.me(guild))
    return member_json(call.world.me(guild))


@route("GET", "/users/@me/guilds")
async def list_my_guilds(call: Call) -> Answer:
    """The guilds that the bot is in."""
    found = list(call.world.guilds.values())
    return [{"id": str(guild.id), "name": guild.name, "icon": None, "features": []} for guild in found]


@route("GET", "/users/{user}")
async def get_user(call: Call) -> Answer:
    """An account."""
    own = call.path["user"] == "@me"
    user = call.world.bot if own else call.world.users.get(call.id("user"))
    if user is None:
        raise unknown("User")
    return user_json(user)


def make_channel(world: World, guild: Guild, body: Json, *, by: Member | None = None) -> Channel:
    """A new channel; ``by`` is who makes it, None is the owner of the guild."""
    check_length("name", body.get("name"), 100, 1)
    channel = Channel(
        world.ids.next(), body.get("type", 0), body["name"], guild, position=len(guild.channels)
    )
    _apply(world, channel, guild, body, by)
    guild.channels[channel.id] = channel
    world.transcript.add("channel", (by.name if by else guild.owner.name), channel)
    world.tell_channel("CHANNEL_CREATE", channel)
    return channel


def remove_channel(world: World, channel: Channel) -> None:
    """Delete a channel with its threads, or a thread."""
    guild = channel.guild
    assert guild is not None
    event = "THREAD_DELETE" if channel.thread else "CHANNEL_DELETE"
    world.tell_channel(event, channel)
    guild.channels.pop(channel.id, None)
    guild.threads.pop(channel.id, None)
    for thread in [thread for thread in guild.threads.values() if thread.parent is channel]:
        del guild.threads[thread.id]
    for child in guild.channels.values():
        child.parent = None if child.parent is channel else child.parent


def add_role(world: World, guild: Guild, name: str, allowed: int = 0, *, managed: bool = False) -> Role:
    """A new role, below all others."""
    for other in guild.roles.values():
        other.position += other.id != guild.id
    role = Role(world.ids.next(), name, int(allowed), managed=managed)
    guild.roles[role.id] = role
    tell_role(world, guild, role, "GUILD_ROLE_CREATE")
    return role


def tell_role(world: World, guild: Guild, role: Role, event: str) -> None:
    """An event about a role."""
    world.gateway.emit(event, {"guild_id": str(guild.id), "role": role_json(role)}, intent=1)
    world.changed()


def tell_member(world: World, member: Member, event: str = "GUILD_MEMBER_UPDATE") -> None:
    """An event about a member; about itself the bot hears without the members' intent."""
    intent = 0 if member.user is world.bot else 1 << 1
    world.gateway.emit(event, member_json(member) | {"guild_id": str(member.guild.id)}, intent=intent)
    world.changed()


def _apply(world: World, channel: Channel, guild: Guild, body: Json, by: Member | None) -> None:
    if "name" in body:
        check_length("name", body["name"], 100, 1)
        # Discord writes the names of text channels and forums in small letters with dashes.
        channel.name = body["name"] if channel.kind in (2, 4) else body["name"].lower().replace(" ", "-")
    check_length("topic", body.get("topic"), 4096 if channel.kind == 15 else 1024)
    channel.topic = body.get("topic", channel.topic)
    channel.position = body.get("position", channel.position)
    channel.slowmode_s = body.get("rate_limit_per_user") or channel.slowmode_s
    if "parent_id" in body:
        channel.parent = world.channel(int(body["parent_id"])) if body["parent_id"] else None
    if (
        channel.parent is not None
        and channel.id not in guild.channels
        and not body.get("permission_overwrites")
    ):
        channel.overwrites = dict(channel.parent.overwrites)
    if body.get("permission_overwrites"):
        channel.overwrites = _overwrites(body["permission_overwrites"], by)


def _overwrites(entries: list[Json], by: Member | None) -> dict[int, Overwrite]:
    """The rules asked for; without Manage Roles one may set only what one has."""
    rules = {
        int(e["id"]): Overwrite(e["type"], int(e.get("allow") or 0), int(e.get("deny") or 0)) for e in entries
    }
    if by is not None:
        own = permissions.in_guild(by)
        touched = P(0)
        for rule in rules.values():
            touched |= P(rule.allow) | P(rule.deny)
        if touched & ~own or (touched & P.MANAGE_ROLES and own != permissions.ALL):
            raise missing_permissions()
    return rules


def _set_role(role: Role, body: Json) -> None:
    for key in _ROLE_FIELDS:
        if key in body and body[key] is not None:
            setattr(role, key, body[key])
    colors = body.get("colors") or {}
    role.color = colors.get("primary_color") or role.color


def _managed_role(call: Call) -> tuple[Guild, Role]:
    guild = call.world.guild(call.id("guild"))
    role = call.world.role(guild, call.id("role"))
    if role.managed or role is guild.everyone or not permissions.may_manage_role(call.world.me(guild), role):
        raise missing_permissions()
    return guild, role


def _any_channel(guild: Guild) -> Channel:
    return next(iter(guild.channels.values()), Channel(0, 4, guild.name, guild))
