"""Forms, read by the rules of the API."""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, get_origin
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.responses import RedirectResponse, Response

from kernelcup.app.boards import managing
from kernelcup.app.boards.settings import TYPES, BoardChanges
from kernelcup.app.boards.upload import load_upload
from kernelcup.app.operation import OPERATIONS, Parameter, without_none
from kernelcup.domain import SETTING_TYPES, BoardSettings, Leaderboard, Task
from kernelcup.errors import Banned, Conflict, InvalidValue, LeaderboardOpen, NotFound, UnknownDevice
from kernelcup.http.api.operations import KEYWORD, Provided, body_of, in_address, said_of
from kernelcup_harness.protocol import HarnessKind

CHOICES: Mapping[str, tuple[str, ...]] = {
    name: tuple(each.value for each in kind)
    for name, kind in {"harness": HarnessKind, **SETTING_TYPES}.items()
    if isinstance(kind, type) and issubclass(kind, Enum)
}
(CHANGES,) = (each for each in OPERATIONS[managing.change].parameters if each.given.parts)
SETTINGS_FORM = body_of("SettingsIn", [CHANGES])
LONGEST_LINE = 1000
"""Characters; a form has several lines for what may be longer."""
LARGEST_LIST = 1_000_000
"""Bytes of a class list."""
PROBLEMS = (Banned, Conflict, InvalidValue, LeaderboardOpen, NotFound, UnknownDevice)
"""What a form is shown again with; who may not send it gets an error."""
MOST_CARRIED = 700_000
"""Bytes of a task that a page carries from its preview to the update."""


async def form_of(request: Request) -> FormData:
    """Return the form that was sent; it was read when its token was checked."""
    return await request.form()


Fields = Annotated[FormData, Depends(form_of)]


def text_of(fields: FormData, name: str) -> str:
    """Return a text of a form, empty where there is none."""
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def perform(call: Callable[..., Any], fields: FormData, given: Provided, **fixed: Any) -> Any:
    """Run an operation with what a form says of its parameters; what is empty there has the default.

    Args:
        call: The operation.
        fields: The form. A flag that means no has the name of its option.
        given: What the server provides.
        fixed: Values that the form does not decide, by the operation's parameters.

    Raises:
        InvalidValue: A parameter is missing, too long, or no moment.
    """
    operation, values = OPERATIONS[call], dict(fixed)
    for parameter in operation.parameters:
        if parameter.given.parts:
            values[parameter.name] = _parts(parameter, fields)
        elif parameter.name not in fixed:
            value = _value(parameter, fields, given["now"])
            if value is not None:
                values[parameter.name] = value
            elif parameter.is_required:
                raise InvalidValue(f"{parameter.key}: expected a value.")
    return operation.run(given, values)


def add_form(
    router: APIRouter,
    path: str,
    call: Callable[..., Any],
    to: str,
    *,
    page: Callable[..., Response] | None = None,
    of_self: bool = False,
    **fixed: Any,
) -> None:
    """Add the route of a form that runs an operation and goes to a page.

    Args:
        router: Gets the route.
        path: Where the form is sent to; its parts are called as in the path of the operation's own route.
        call: The operation.
        to: The address of the page, with parts of ``path``.
        page: Shows the form again, from the request, what the server provides and a problem; without it a problem
            has a page of its own.
        of_self: Whether its parameter ``name`` is the name of who sends it.
        fixed: Values that neither the address nor the form decides, by the operation's parameters.
    """
    parts = [each for each in OPERATIONS[call].parameters if each.in_path and f"{{{each.in_path}}}" in path]

    def send(request: Request, given: Provided, fields: Fields, **values: Any) -> Response:
        own = {"name": given["actor"].name} if of_self else {}
        try:
            perform(call, fields, given, **fixed, **own, **values)
        except PROBLEMS as error:
            if page is None:
                raise
            return page(request, given, str(error))
        quoted = {name: quote(str(part), safe="") for name, part in request.path_params.items()}
        return RedirectResponse(to.format(**quoted), 303)

    read = list(inspect.signature(send, eval_str=True).parameters.values())[:-1]
    send.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=KEYWORD) for each in read] + list(map(in_address, parts))
    )
    router.add_api_route(path, send, methods=["POST"], response_model=None)


def _value(parameter: Parameter, fields: FormData, now: datetime) -> Any:
    """Return the value of a form's field, None where it is empty."""
    rule = parameter.given
    if rule.is_negated:
        return not text_of(fields, rule.options[0].lstrip("-"))
    text = text_of(fields, parameter.given.key or parameter.name)
    if len(text) > rule.longest:
        raise InvalidValue(f"{parameter.key}: {len(text)} characters; {rule.longest} are allowed.")
    if parameter.kind is bool:
        return bool(text)
    kind, _ = without_none(parameter.kind)
    if text and kind in (int, float):
        return _number(parameter, kind, text)
    return (text if rule.parse is None else rule.parse(text, now)) if text else None


def _number(parameter: Parameter, kind: type[int] | type[float], text: str) -> float:
    """Return a number within the parameter's bounds."""
    try:
        number = kind(text)
    except ValueError:
        raise InvalidValue(f"{parameter.key}: expected a number, not {text[:40]!r}.") from None
    least, most = parameter.given.least, parameter.given.most
    if (least is not None and number < least) or (most is not None and number > most):
        raise InvalidValue(f"{parameter.key}: expected {least} to {most}, not {number}.")
    return number


def _parts(parameter: Parameter, fields: FormData) -> Any:
    """Return settings, all of them: what is empty in the form is removed, or has its default."""
    given: dict[str, Any] = {}
    for part in parameter.given.parts:
        kind, is_optional = without_none(part.kind)
        text = text_of(fields, part.key).replace("\r\n", "\n")
        if kind is bool:
            given[part.key] = bool(text)
        elif shape_of(part) == "lines":
            given[part.key] = [each.strip() for each in text.splitlines() if each.strip()]
        else:
            given[part.key] = text or (None if is_optional else part.default)
    return _checked(parameter, body_of("SettingsIn", [parameter]), given)


def shape_of(part: Parameter) -> str:
    """Return how a form asks for a setting: ``check``, ``choice``, ``when``, ``lines``, ``text`` or ``line``."""
    kind, _ = without_none(part.kind)
    if get_origin(kind) is not None:
        return "lines"
    if issubclass(kind, Enum):
        return "choice"
    simple = {bool: "check", datetime: "when"}
    return simple.get(kind, "text" if part.given.longest > LONGEST_LINE else "line")


def shown_value(value: object) -> str | bool:
    """Return a setting as a form shows it: a list has a line for each item."""
    return "\n".join(value) if isinstance(value, tuple | list) else _field(value)


def list_of(fields: FormData, name: str) -> str:
    """Return a class list: the file that was sent, else the text of a field. Raise ``InvalidValue``."""
    sent = fields.get("file")
    if not (isinstance(sent, UploadFile) and sent.filename):
        return text_of(fields, name)
    content = sent.file.read(LARGEST_LIST + 1)
    if len(content) > LARGEST_LIST:
        raise InvalidValue("The list is larger than 1 MB.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidValue(f"The list is not UTF-8 text: byte {error.start}.") from error


def moment_field(when: datetime | None) -> str:
    """Return a moment as a browser's picker has it and sends it back: seconds only where there are some."""
    if when is None:
        return ""
    at = when.astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}" if at.second else f"{at:%Y-%m-%dT%H:%M}"


def values_of_board(board: Leaderboard) -> dict[str, Any]:
    """Return a leaderboard's settings as a form shows them."""
    return {**_values(board), "devices": list(board.devices), "harness": board.harness.value}


def _values(settings: BoardSettings) -> dict[str, Any]:
    return {name: _field(getattr(settings, name)) for name in SETTING_TYPES}


def _field(value: object) -> str | bool:
    """Return a setting as it is typed in or ticked."""
    match value:
        case bool():
            return value
        case None | datetime():
            return moment_field(value)
        case Enum():
            return str(value.value)
        case tuple() | list():
            return ", ".join(value)
        case float():
            return str(value).removesuffix(".0")
    return str(value)


def values_of_fields(fields: FormData) -> dict[str, Any]:
    """Return the texts of a form that was sent, to show them again."""
    texts = {name: text_of(fields, name) for name in ("harness", *SETTING_TYPES)}
    ticked = {name: bool(texts[name]) for name, kind in SETTING_TYPES.items() if kind is bool}
    return {**texts, **ticked, "devices": [str(each) for each in fields.getlist("devices")]}


NEW_VALUES: Mapping[str, Any] = {**_values(BoardSettings()), "devices": [], "harness": ""}


def settings_of(values: Mapping[str, Any], *, besides: Mapping[str, Any] | None = None) -> BoardChanges:
    """Return settings from what a form says.

    Args:
        values: Of ``values_of_fields``.
        besides: What the form showed: what stands there as it was is left out, so that moments keep their
            fractions of a second.

    Raises:
        InvalidValue: Something cannot be a setting.
    """
    said = {name: value for name, value in values.items() if besides is None or value != besides[name]}
    given: dict[str, Any] = {
        name: value or None if without_none(TYPES[name])[1] else value
        for name, value in said.items()
        if value or besides is not None
    }
    if besides is not None and {*given.get("devices", ())} == {*besides["devices"]}:
        given.pop("devices", None)
    if "review_tags" in given:
        given["review_tags"] = [each.strip() for each in given["review_tags"].split(",") if each.strip()]
    settings: BoardChanges = _checked(CHANGES, SETTINGS_FORM, given)
    return settings


def _checked(parameter: Parameter, form: type[BaseModel], given: Mapping[str, Any]) -> Any:
    try:
        return said_of(parameter, form.model_validate(given))
    except ValidationError as error:
        told = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise InvalidValue(told) from error


def changes_of(fields: FormData, board: Leaderboard) -> BoardChanges | None:
    """Return the changes of settings that a form asks for, None where it has no settings."""
    if not text_of(fields, "settings"):
        return None
    return settings_of(values_of_fields(fields), besides=values_of_board(board))


def upload_of(fields: FormData) -> tuple[str, bytes] | None:
    """Return name and content of the task that was sent, or that the preview carried; None without one.

    Raises:
        InvalidValue: What was carried cannot be read.
    """
    sent = fields.get("task")
    if isinstance(sent, UploadFile) and sent.filename:
        sent.file.seek(0)  # it may have been read before
        return sent.filename, sent.file.read()
    carried = text_of(fields, "carried")
    if not carried:
        return None
    try:
        return text_of(fields, "carried_name") or "task.zip", base64.b64decode(carried, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue("The task of the preview cannot be read; send it again.") from None


def task_of(upload: tuple[str, bytes]) -> Task:
    """Return the task of an upload. Raise ``InvalidTask`` with all that is wrong, by file and line."""
    name, content = upload
    return load_upload({name: content})


def carried(upload: tuple[str, bytes] | None) -> dict[str, str]:
    """Return the hidden values by which a page carries a task. Raise ``InvalidValue`` if it is too large."""
    if upload is None:
        return {}
    name, content = upload
    if len(content) > MOST_CARRIED:
        raise InvalidValue(
            f"A task of more than {MOST_CARRIED // 1000} kB is updated by the command line: "
            "kernelcup board update NAME FILE."
        )
    return {"carried_name": name, "carried": base64.b64encode(content).decode()}
