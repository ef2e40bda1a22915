"""What users do: commands, autocomplete, buttons, menus, forms and messages of their own.

Every way checks first that the real client would offer it, and raises CannotDo where it would not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import permissions
from .errors import CannotDo, Json
from .interaction import Interaction, Person, names_of
from .interactions import AUTOCOMPLETE, COMMAND, COMPONENT, MODAL, begin
from .messages import reopen, write
from .options import File, attachment_option, find_command, leaf_options, wrap
from .payloads import channel_json, member_json, message_json, user_json
from .permissions import P
from .state import BUTTON, LINK_STYLE, STRING_SELECT, TEXT_INPUT, Channel, Member, Message, User, walk
from .web import Upload
from .world import World


class Users:
    """The hands of all users."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def slash(
        self,
        person: Person,
        channel: Channel,
        command: str,
        options: Mapping[str, Any] | None = None,
        attachment: File | None = None,
    ) -> Interaction:
        """Type a slash command: ``"leaderboard submit test"`` without the slash."""
        user, words = account(person), command.split()
        registered, leaf = self._command(user, channel, words)
        values = dict(options or {})
        if attachment is not None:
            values[attachment_option(leaf, values)] = attachment
        resolved: Json = {}
        sent = leaf_options(self.world, leaf, values, resolved)
        exchange = begin(self, COMMAND, user, channel)
        shown = {key: value[0] if isinstance(value, tuple) else _name(value) for key, value in values.items()}
        self._record("command", exchange, text=f"/{command}", options=shown)
        data = _command_data(registered, wrap(words, sent), resolved)
        return self._send(exchange, data)

    async def autocomplete(
        self,
        person: Person,
        channel: Channel,
        command: str,
        option: str,
        typed: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> list[str | int | float]:
        """Type into an option, after ``options`` were filled in, and see what values are offered, in order."""
        user, words = account(person), command.split()
        registered, leaf = self._command(user, channel, words)
        wanted = next((o for o in leaf.get("options") or [] if o["name"] == option), None)
        if wanted is None or not wanted.get("autocomplete"):
            raise CannotDo(f"/{command} offers nothing for {option}")
        resolved: Json = {}
        sent = leaf_options(self.world, leaf, {**(options or {}), option: typed}, resolved, focused=option)
        exchange = begin(self, AUTOCOMPLETE, user, channel)
        self._record("autocomplete", exchange, text=typed, command=command, option=option)
        self._send(exchange, _command_data(registered, wrap(words, sent), resolved))
        await self.world.until(lambda: exchange.choices is not None or exchange.failed, "choices")
        if exchange.choices is None:
            raise CannotDo("Loading options failed")
        return [choice["value"] for choice in exchange.choices]

    async def press(self, person: Person, message: Message, button: str) -> Interaction:
        """Press a button of any message: by its custom_id or its label."""
        part = self._control(person, message, button)
        if part["type"] != BUTTON or part.get("style") == LINK_STYLE:
            raise CannotDo(f"{button!r} is no button that can be pressed")
        exchange = begin(self, COMPONENT, account(person), message.channel, message)
        label = part.get("label") or (part.get("emoji") or {}).get("name") or part["custom_id"]
        self._record("press", exchange, text=label, message_id=message.id, custom_id=part["custom_id"])
        return self._send_component(exchange, message, part, {})

    async def choose(self, person: Person, message: Message, menu: str, values: Sequence[str]) -> Interaction:
        """Choose in a menu of any message, by its custom_id or placeholder: values or labels of its options."""
        part = self._control(person, message, menu)
        if part["type"] != STRING_SELECT:
            raise CannotDo(f"{menu!r} is no menu of texts")
        chosen = _chosen(part, values)
        exchange = begin(self, COMPONENT, account(person), message.channel, message)
        labels = [option["label"] for option in part["options"] if option["value"] in chosen]
        about = {"custom_id": part["custom_id"], "values": chosen}
        self._record("choose", exchange, text=", ".join(labels), message_id=message.id, **about)
        return self._send_component(exchange, message, part, {"values": chosen})

    async def fill(self, opened: Interaction, values: Mapping[str, str | Sequence[str]]) -> Interaction:
        """Fill in the form that an interaction opened, and send it."""
        form = opened.form
        if form is None:
            raise CannotDo("there is no form")
        inputs = [part for part in walk(form["components"]) if "custom_id" in part]
        given = {part["custom_id"]: _filled(form, part, values) for part in inputs}
        strange = set(values) - {name for part in inputs for name in _input_names(form, part)}
        if strange:
            raise CannotDo(f"the form has no {', '.join(sorted(strange))}")
        exchange = begin(self, MODAL, opened.user, opened.channel, opened.source)
        self._record("fill", exchange, text=form["title"], values=given)
        data = {
            "custom_id": form["custom_id"],
            "components": [_submitted(p, given) for p in form["components"]],
        }
        more = {"message": message_json(opened.source, self.world.cdn)} if opened.source else {}
        return self._send(exchange, data, **more)

    def say(
        self, person: Person, channel: Channel, text: str, files: Mapping[str, bytes] | None = None
    ) -> Message:
        """Write a message as a user."""
        user = account(person)
        need = P.SEND_MESSAGES_IN_THREADS if channel.thread else P.SEND_MESSAGES
        if channel.guild is not None and not self._may(user, channel, need):
            raise CannotDo(f"{user.name} may not write in {channel.name}")
        if (
            channel.thread is not None
            and channel.thread.locked
            and not self._may(user, channel, P.MANAGE_THREADS)
        ):
            raise CannotDo(f"{channel.name} is locked")
        reopen(self.world, channel, manages=True)
        uploads = [Upload(i, name, data) for i, (name, data) in enumerate((files or {}).items())]
        return write(self.world, channel, user, {"content": text}, uploads)

    def _command(self, user: User, channel: Channel, words: list[str]) -> tuple[Json, Json]:
        guild = channel.guild
        if not permissions.sees(user, channel):
            raise CannotDo(f"{user.name} does not see {channel.name}")
        if guild is not None and not self._may(user, channel, P.USE_APPLICATION_COMMANDS):
            raise CannotDo(f"{user.name} may not use commands in {channel.name}")
        registered, leaf = find_command(self.world, guild.id if guild else None, words)
        need = registered.get("default_member_permissions")
        if need is not None and guild is not None:
            allowed = permissions.in_channel(guild.members[user.id], channel)
            if allowed != permissions.ALL and (need == "0" or P(int(need)) & ~allowed):
                raise CannotDo(f"/{words[0]} is not offered to {user.name}")
        return registered, leaf

    def _control(self, person: Person, message: Message, name: str) -> Json:
        user = account(person)
        if message.deleted or not visible(user, message):
            raise CannotDo(f"{user.name} does not see that message")
        found = [part for part in message.controls if name in names_of(part)]
        if not found:
            offered = [sorted(names_of(part)) for part in message.controls]
            raise CannotDo(f"the message has no {name!r}; it has {offered}")
        if found[0].get("disabled"):
            raise CannotDo(f"{name!r} is greyed out")
        return found[0]

    def _may(self, user: User, channel: Channel, need: P) -> bool:
        member = channel.guild.members.get(user.id) if channel.guild else None
        return member is not None and bool(permissions.in_channel(member, channel) & need)

    def _send_component(self, exchange: Interaction, message: Message, part: Json, more: Json) -> Interaction:
        data = {
            "custom_id": part["custom_id"],
            "component_type": part["type"],
            "id": part.get("id", 0),
        } | more
        return self._send(exchange, data, message=message_json(message, self.world.cdn))

    def _send(self, exchange: Interaction, data: Json, **more: Json) -> Interaction:
        self.world.gateway.emit("INTERACTION_CREATE", self._event(exchange, data) | more)
        return exchange

    def _event(self, exchange: Interaction, data: Json) -> Json:
        channel, guild = exchange.channel, exchange.channel.guild
        event: Json = {
            "id": str(exchange.id),
            "application_id": str(self.world.bot.id),
            "type": exchange.kind,
            "token": exchange.token,
            "version": 1,
            "channel_id": str(channel.id),
            "channel": channel_json(channel) | {"permissions": "0"},
            "data": data,
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {"0": str(guild.id)} if guild else {},
            "context": 0 if guild else 1,
            "attachment_size_limit": self.world.sizes.file_bytes,
        }
        if guild is None:
            return event | {"user": user_json(exchange.user), "app_permissions": str(int(permissions.ALL))}
        mine = permissions.in_channel(self.world.me(guild), channel)
        return event | {
            "guild_id": str(guild.id),
            "guild": {"id": str(guild.id), "features": [], "locale": "en-US"},
            "guild_locale": "en-US",
            "member": member_json(guild.members[exchange.user.id], channel=channel),
            "app_permissions": str(int(mine)),
        }

    def _record(self, kind: str, exchange: Interaction, **more: object) -> None:
        user = exchange.user.name
        self.world.transcript.add(kind, user, exchange.channel, private_to=user, **more)


def account(person: Person) -> User:
    """The account of a member."""
    return person.user if isinstance(person, Member) else person


def visible(user: User, message: Message) -> bool:
    """Whether a user sees a message."""
    if message.ephemeral_to is not None:
        return message.ephemeral_to is user
    return permissions.sees(user, message.channel)


def _name(value: Any) -> Any:
    return value.name if isinstance(value, User | Member | Channel) or hasattr(value, "mention") else value


def _command_data(registered: Json, options: list[Json], resolved: Json) -> Json:
    data = {"id": registered["id"], "name": registered["name"], "type": 1, "options": options}
    if "guild_id" in registered:
        data["guild_id"] = registered["guild_id"]
    return data | ({"resolved": resolved} if resolved else {})


def _chosen(menu: Json, values: Sequence[str]) -> list[str]:
    by_label = {option["label"]: option["value"] for option in menu["options"]}
    known = {option["value"] for option in menu["options"]}
    chosen = [value if value in known else by_label.get(value, "") for value in values]
    if not set(chosen) <= known:
        raise CannotDo(f"the menu offers {sorted(by_label)}, not {list(values)}")
    low, high = menu.get("min_values", 1), menu.get("max_values", 1)
    if not low <= len(chosen) <= high or len(set(chosen)) != len(chosen):
        raise CannotDo(f"the menu takes {low} to {high} of its options, not {len(chosen)}")
    return chosen


def _input_names(form: Json, part: Json) -> set[str]:
    """An input's own names and that of the label around it."""
    around = [p.get("label") for p in form["components"] if p.get("component") is part]
    return names_of(part) | {name for name in around if name}


def _filled(form: Json, part: Json, values: Mapping[str, str | Sequence[str]]) -> Any:
    found = [values[name] for name in _input_names(form, part) if name in values]
    if part["type"] == TEXT_INPUT:
        return _text(part, str(found[0]) if found else part.get("value") or "")
    if part["type"] == STRING_SELECT:
        preset = [option["value"] for option in part["options"] if option.get("default")]
        chosen = [found[0]] if found and isinstance(found[0], str) else list(found[0] if found else preset)
        return _chosen(part, chosen) if chosen or part.get("required", True) else []
    raise CannotDo(f"the loopback cannot fill an input of type {part['type']}")


def _text(part: Json, text: str) -> str:
    least = part.get("min_length") or 0
    if (part.get("required", True) and not text) or (text and len(text) < least):
        raise CannotDo(f"{part['custom_id']} needs at least {max(least, 1)} characters")
    if len(text) > (part.get("max_length") or 4000):
        raise CannotDo(f"{part['custom_id']} takes at most {part.get('max_length') or 4000} characters")
    return text


def _submitted(part: Json, given: Mapping[str, Any]) -> Json:
    about = {"type": part["type"], "id": part.get("id", 1)}
    if part["type"] == 1:
        return about | {"components": [_submitted(inner, given) for inner in part["components"]]}
    if "component" in part:
        return about | {"component": _submitted(part["component"], given)}
    if "custom_id" not in part:
        return about
    value = given[part["custom_id"]]
    return about | {"custom_id": part["custom_id"], ("value" if isinstance(value, str) else "values"): value}
