"""The limits of what a message, a form, a menu and a command may hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import Json, Refusal, invalid_form
from .state import BUTTON, COMPONENTS_V2, LINK_STYLE, STRING_SELECT, TEXT_INPUT, embed_texts, walk

_SELECTS = (3, 5, 6, 7, 8)
_COMMAND_NAME = re.compile(r"[-_'\w]{1,32}")
_EMBED_LENGTHS = {"title": 256, "description": 4096}


@dataclass
class Sizes:
    """Limits that depend on the server; a test may lower them."""

    file_bytes: int = 10 * 1024 * 1024
    active_threads: int = 1000
    commands: int = 100


def check_length(path: str, value: str | None, most: int, least: int = 0) -> None:
    """Refuse a text that is too long or too short."""
    length = len(value or "")
    if length > most:
        raise invalid_form(path, "BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.")
    if length < least:
        message = f"Must be between {least} and {most} in length." if value else "This field is required"
        raise invalid_form(path, "BASE_TYPE_BAD_LENGTH" if value else "BASE_TYPE_REQUIRED", message)


def check_count(path: str, count: int, most: int, least: int = 0) -> None:
    """Refuse a list that is too long or too short."""
    if not least <= count <= most:
        message = f"Must be between {least} and {most} in length."
        raise invalid_form(path, "BASE_TYPE_BAD_LENGTH", message)


def check_message(body: Json, sizes: Sizes, files: list[int]) -> None:
    """Refuse what no message may hold; ``files`` are the sizes of the new files."""
    check_length("content", body.get("content"), 2000)
    check_length("nonce", str(body.get("nonce") or ""), 25)
    check_embeds(body.get("embeds") or [])
    check_components(body.get("components") or [], new_kind=bool((body.get("flags") or 0) & COMPONENTS_V2))
    if (body.get("flags") or 0) & COMPONENTS_V2 and (body.get("content") or body.get("embeds")):
        message = "The 'content' and 'embeds' fields cannot be used with the IS_COMPONENTS_V2 flag"
        raise invalid_form("content", "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", message)
    check_count("attachments", len(files), 10)
    if any(size > sizes.file_bytes for size in files):
        raise Refusal(413, 40005, "Request entity too large")


def check_embeds(embeds: list[Json]) -> None:
    """Refuse embeds that are too many or too long."""
    check_count("embeds", len(embeds), 10)
    for i, embed in enumerate(embeds):
        for key, most in _EMBED_LENGTHS.items():
            check_length(f"embeds.{i}.{key}", embed.get(key), most)
        check_length(f"embeds.{i}.footer.text", (embed.get("footer") or {}).get("text"), 2048)
        check_length(f"embeds.{i}.author.name", (embed.get("author") or {}).get("name"), 256)
        check_count(f"embeds.{i}.fields", len(embed.get("fields") or []), 25)
        for j, row in enumerate(embed.get("fields") or []):
            check_length(f"embeds.{i}.fields.{j}.name", row.get("name"), 256, 1)
            check_length(f"embeds.{i}.fields.{j}.value", row.get("value"), 1024, 1)
    if sum(len(text) for embed in embeds for text in embed_texts(embed)) > 6000:
        raise invalid_form("embeds", "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")


def check_components(components: list[Json], *, new_kind: bool = False) -> None:
    """Refuse buttons and menus that are too many, too long or named twice."""
    if new_kind:
        check_count("components", sum(1 for _ in walk(components)), 40, 1)
    else:
        check_count("components", len(components), 5)
        for i, row in enumerate(components):
            _check_row(f"components.{i}", row)
    parts = list(walk(components))
    for part in parts:
        _check_part("components", part)
    custom_ids = [part["custom_id"] for part in parts if "custom_id" in part]
    if len(set(custom_ids)) != len(custom_ids):
        message = "Component custom id cannot be duplicated"
        raise invalid_form("components", "COMPONENT_CUSTOM_ID_DUPLICATED", message)


def check_modal(data: Json) -> None:
    """Refuse a form that breaks a limit."""
    check_length("data.custom_id", data.get("custom_id"), 100, 1)
    check_length("data.title", data.get("title"), 45, 1)
    parts = data.get("components") or []
    check_count("data.components", len(parts), 5, 1)
    for i, part in enumerate(parts):
        path = f"data.components.{i}"
        check_length(f"{path}.label", part.get("label"), 45)
        check_length(f"{path}.description", part.get("description"), 100)
        if part["type"] == 1:
            check_count(f"{path}.components", len(part["components"]), 1, 1)
    for part in walk(parts):
        if part["type"] == BUTTON:
            raise invalid_form(
                "data.components", "BASE_TYPE_CHOICES", 'Value of field "type" must be one of (4,).'
            )
        _check_part("data.components", part)


def check_choices(choices: list[Json], path: str = "data.choices") -> None:
    """Refuse more choices than a list shows, or longer ones."""
    check_count(path, len(choices), 25)
    for i, choice in enumerate(choices):
        check_length(f"{path}.{i}.name", choice.get("name"), 100, 1)
        if isinstance(choice.get("value"), str):
            check_length(f"{path}.{i}.value", choice["value"], 100)


def check_thread_name(name: str | None) -> None:
    """Refuse a name that no thread may have."""
    check_length("name", name, 100, 1)


def check_commands(commands: list[Json], sizes: Sizes) -> None:
    """Refuse commands that Discord would not register."""
    if len(commands) > sizes.commands:
        raise Refusal(400, 30032, f"Maximum number of application commands reached ({sizes.commands})")
    names = [command.get("name") for command in commands]
    if len(set(names)) != len(names):
        message = "Application command names must be unique"
        raise invalid_form("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", message)
    for i, command in enumerate(commands):
        if command.get("type", 1) == 1:
            _check_command(str(i), command, depth=0)
            if _command_size(command) > 8000:
                message = "Command exceeds maximum size (8000)"
                raise invalid_form(str(i), "APPLICATION_COMMAND_TOO_LARGE", message)


def _check_row(path: str, row: Json) -> None:
    if row["type"] != 1:
        raise invalid_form(f"{path}.type", "BASE_TYPE_CHOICES", 'Value of field "type" must be one of (1,).')
    parts = row.get("components") or []
    most = 1 if any(part["type"] in _SELECTS for part in parts) else 5
    check_count(f"{path}.components", len(parts), most, 1)


def _check_part(path: str, part: Json) -> None:
    kind = part["type"]
    if kind == BUTTON:
        _check_button(path, part)
    elif kind in _SELECTS:
        _check_select(path, part)
    elif kind == TEXT_INPUT:
        _check_text_input(path, part)
    elif kind == 10:
        check_length(f"{path}.content", part.get("content"), 4000, 1)


def _check_button(path: str, part: Json) -> None:
    check_length(f"{path}.label", part.get("label"), 80)
    if part.get("style") == LINK_STYLE:
        check_length(f"{path}.url", part.get("url"), 512, 1)
    else:
        check_length(f"{path}.custom_id", part.get("custom_id"), 100, 1)
    if not part.get("label") and not part.get("emoji"):
        message = "A button must have a label or an emoji"
        raise invalid_form(f"{path}.label", "BUTTON_COMPONENT_INVALID_LABEL", message)


def _check_select(path: str, part: Json) -> None:
    check_length(f"{path}.custom_id", part.get("custom_id"), 100, 1)
    check_length(f"{path}.placeholder", part.get("placeholder"), 150)
    options = part.get("options") or []
    if part["type"] != STRING_SELECT:
        return
    check_count(f"{path}.options", len(options), 25, 1)
    for i, option in enumerate(options):
        check_length(f"{path}.options.{i}.label", option.get("label"), 100, 1)
        check_length(f"{path}.options.{i}.value", option.get("value"), 100, 1)
        check_length(f"{path}.options.{i}.description", option.get("description"), 100)
    values = [option.get("value") for option in options]
    if len(set(values)) != len(values):
        message = "The specified option value is already used"
        raise invalid_form(f"{path}.options", "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED", message)
    if max(part.get("min_values") or 0, part.get("max_values") or 1) > len(options):
        message = f"Must be less than or equal to {len(options)}."
        raise invalid_form(f"{path}.max_values", "NUMBER_TYPE_MAX", message)


def _check_text_input(path: str, part: Json) -> None:
    check_length(f"{path}.custom_id", part.get("custom_id"), 100, 1)
    check_length(f"{path}.label", part.get("label"), 45)
    check_length(f"{path}.placeholder", part.get("placeholder"), 100)
    check_length(f"{path}.value", part.get("value"), 4000)
    if not 1 <= (part.get("max_length") or 4000) <= 4000:
        raise invalid_form(f"{path}.max_length", "NUMBER_TYPE_MAX", "int value should be between 1 and 4000.")


def _check_command(path: str, command: Json, depth: int) -> None:
    name = command.get("name") or ""
    if not _COMMAND_NAME.fullmatch(name) or name != name.lower():
        message = f"Command name is invalid: {name!r} (1-32 lowercase letters, digits, - and _)"
        raise invalid_form(f"{path}.name", "APPLICATION_COMMAND_INVALID_NAME", message)
    check_length(f"{path}.description", command.get("description"), 100, 1)
    options = command.get("options") or []
    check_count(f"{path}.options", len(options), 25)
    optional_seen = False
    for i, option in enumerate(options):
        where = f"{path}.options.{i}"
        _check_command(where, option, depth + 1)
        if option["type"] in (1, 2):
            _check_nesting(where, option, depth)
            continue
        _check_option(where, option)
        if option.get("required") and optional_seen:
            message = "Required options must be placed before non-required options"
            raise invalid_form(where, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", message)
        optional_seen = optional_seen or not option.get("required")


def _check_nesting(path: str, option: Json, depth: int) -> None:
    if depth + option["type"] > 2:
        message = "Sub-command option type is invalid"
        raise invalid_form(path, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", message)


def _check_option(path: str, option: Json) -> None:
    choices = option.get("choices") or []
    check_choices(choices, f"{path}.choices")
    if choices and option.get("autocomplete"):
        message = "Choices cannot be present when autocomplete is set"
        raise invalid_form(f"{path}.choices", "APPLICATION_COMMAND_OPTIONS_CHOICES_AND_AUTOCOMPLETE", message)


def _command_size(command: Json) -> int:
    size = len(command.get("name") or "") + len(command.get("description") or "")
    size += sum(len(choice["name"]) + len(str(choice["value"])) for choice in command.get("choices") or [])
    return size + sum(_command_size(option) for option in command.get("options") or [])
