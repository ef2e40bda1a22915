"""REST: the bot's own account, its application and its commands."""

from __future__ import annotations

from .errors import Json, unknown
from .limits import check_commands
from .payloads import user_json
from .web import Answer, Call, route
from .world import World

_GLOBAL = "/applications/{application}/commands"
_LOCAL = "/applications/{application}/guilds/{guild}/commands"


@route("GET", "/oauth2/applications/@me")
async def get_application(call: Call) -> Answer:
    """The application."""
    bot = call.world.bot
    return {
        "id": str(bot.id),
        "name": bot.name,
        "icon": None,
        "description": "",
        "bot_public": False,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": 0,
        "team": None,
        "owner": user_json(call.world.owner),
        "rpc_origins": None,
        "summary": "",
        "interactions_endpoint_url": None,
    }


@route("PUT", _GLOBAL)
async def put_commands(call: Call) -> Answer:
    """Replace all commands that every guild has."""
    return _put(call, None)


@route("PUT", _LOCAL)
async def put_guild_commands(call: Call) -> Answer:
    """Replace all commands of one guild."""
    return _put(call, call.world.guild(call.id("guild")).id)


def _put(call: Call, guild_id: int | None) -> Answer:
    if call.id("application") != call.world.bot.id:
        raise unknown("Application")
    check_commands(call.body, call.world.sizes)
    old = {command["name"]: command["id"] for command in call.world.commands.get(guild_id, [])}
    commands = [_registered(call.world, command, guild_id, old) for command in call.body]
    call.world.commands[guild_id] = commands
    call.world.changed()
    return commands


def _registered(world: World, command: Json, guild_id: int | None, old: dict[str, str]) -> Json:
    ids: Json = {"application_id": str(world.bot.id), "version": str(world.ids.next())}
    ids["id"] = old.get(command["name"]) or str(world.ids.next())
    if guild_id is not None:
        ids["guild_id"] = str(guild_id)
    return {"type": 1, "default_member_permissions": None, "dm_permission": True} | command | ids
