"""The options of a slash command as a user fills them in, checked as the real client checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import CannotDo, Json
from .payloads import channel_json, member_json, role_json, user_json
from .state import Channel, Member, Role, User
from .world import World

SUB_COMMAND, GROUP = 1, 2
STRING, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, NUMBER, ATTACHMENT = 3, 4, 5, 6, 7, 8, 10, 11
File = tuple[str, bytes]


def find_command(world: World, guild_id: int | None, words: list[str]) -> tuple[Json, Json]:
    """A command by its words: what was registered, and the sub-command that holds the options.

    Raises:
        CannotDo: The client would not offer it.
    """
    here = world.commands.get(guild_id, []) if guild_id is not None else []
    for command in [*here, *world.commands.get(None, [])]:
        if command["name"] == words[0] and command["type"] == 1:
            return command, _descend(command, words)
    offered = sorted(command["name"] for command in [*here, *world.commands.get(None, [])])
    raise CannotDo(f"there is no command /{words[0]}; offered are {', '.join(offered) or 'none'}")


def leaf_options(
    world: World, leaf: Json, values: Mapping[str, Any], resolved: Json, *, focused: str | None = None
) -> list[Json]:
    """What is sent for the options that a user filled in.

    Args:
        world: Where things are looked up.
        leaf: The command or sub-command.
        values: What was filled in, by name.
        resolved: Filled with the people, channels, roles and files that are named.
        focused: The option that is being typed: then nothing else is checked.
    """
    known = {option["name"]: option for option in leaf.get("options") or []}
    strange = set(values) - set(known)
    if strange:
        raise CannotDo(
            f"/{leaf['name']} has no option {', '.join(sorted(strange))}; it has {', '.join(known)}"
        )
    missing = [name for name, option in known.items() if option.get("required") and name not in values]
    if missing and focused is None:
        raise CannotDo(f"/{leaf['name']} needs {', '.join(missing)}")
    sent = []
    for name, value in values.items():
        option = known[name]
        if name == focused:
            sent.append({"name": name, "type": option["type"], "value": value, "focused": True})
        else:
            _check_value(option, value)
            sent.append(
                {"name": name, "type": option["type"], "value": _sent(world, option, value, resolved)}
            )
    return sent


def wrap(words: list[str], options: list[Json]) -> list[Json]:
    """Put options under their sub-command and group."""
    for depth, word in enumerate(reversed(words[1:])):
        options = [{"name": word, "type": SUB_COMMAND if depth == 0 else GROUP, "options": options}]
    return options


def attachment_option(leaf: Json, values: Mapping[str, Any]) -> str:
    """The first option for a file that is not filled in yet."""
    for option in leaf.get("options") or []:
        if option["type"] == ATTACHMENT and option["name"] not in values:
            return str(option["name"])
    raise CannotDo(f"/{leaf['name']} takes no file")


def _descend(command: Json, words: list[str]) -> Json:
    node = command
    for word in words[1:]:
        below = {o["name"]: o for o in node.get("options") or [] if o["type"] in (SUB_COMMAND, GROUP)}
        if word not in below:
            raise CannotDo(
                f"there is no command /{' '.join(words)}; below /{node['name']} are {', '.join(below)}"
            )
        node = below[word]
    if any(option["type"] in (SUB_COMMAND, GROUP) for option in node.get("options") or []):
        raise CannotDo(f"/{' '.join(words)} is a group, not a command")
    return node


_TYPES: dict[int, tuple[type, ...]] = {
    STRING: (str,),
    INTEGER: (int,),
    BOOLEAN: (bool,),
    USER: (User, Member),
    CHANNEL: (Channel,),
    ROLE: (Role,),
    NUMBER: (int, float),
    ATTACHMENT: (tuple,),
}


def _check_value(option: Json, value: Any) -> None:
    name, kind = option["name"], option["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != BOOLEAN):
        raise CannotDo(f"{name} does not take {value!r}")
    choices = [choice["value"] for choice in option.get("choices") or []]
    if choices and value not in choices:
        raise CannotDo(f"{name} is one of {choices}, not {value!r}")
    if isinstance(value, str) and not option.get("min_length", 0) <= len(value) <= option.get(
        "max_length", 6000
    ):
        raise CannotDo(f"{name} has {len(value)} characters")
    if kind in (INTEGER, NUMBER):
        low, high = option.get("min_value"), option.get("max_value")
        if (low is not None and value < low) or (high is not None and value > high):
            raise CannotDo(f"{name} is between {low} and {high}, not {value}")


def _sent(world: World, option: Json, value: Any, resolved: Json) -> Any:
    kind = option["type"]
    if kind == ATTACHMENT:
        file = world.attachment(world.bot.id, value[0], value[1], ephemeral=True)
        resolved.setdefault("attachments", {})[str(file.id)] = world.cdn.attachment_json(file)
        return str(file.id)
    if kind == USER:
        user = value.user if isinstance(value, Member) else value
        resolved.setdefault("users", {})[str(user.id)] = user_json(user)
        if isinstance(value, Member):
            data = member_json(value)
            del data["user"]
            resolved.setdefault("members", {})[str(user.id)] = data | {"permissions": "0"}
        return str(user.id)
    if kind == CHANNEL:
        resolved.setdefault("channels", {})[str(value.id)] = channel_json(value) | {"permissions": "0"}
        return str(value.id)
    if kind == ROLE:
        resolved.setdefault("roles", {})[str(value.id)] = role_json(value)
        return str(value.id)
    return value
