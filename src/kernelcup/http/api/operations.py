"""The routes of all operations, made from their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import quote

from fastapi import Body, Depends, File, Path, Query, Response, UploadFile
from fastapi import Form as FormField
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field, Json, create_model

from kernelcup.app.boards.judging import MadeBoard
from kernelcup.app.boards.upload import load_upload
from kernelcup.app.machines.agreement import Comparison
from kernelcup.app.operation import Archive, Operation, Parameter, without_none
from kernelcup.app.people.accounts import Me
from kernelcup.app.people.tokens import SecretToken
from kernelcup.app.submissions.handout import HandedOut
from kernelcup.domain import LARGEST_ID, Device, Leaderboard, Record, Standing, Table, Task
from kernelcup.domain.answers import Reservation, Token, User
from kernelcup.errors import InvalidValue
from kernelcup.http.api.forms import (
    ERRORS,
    CreatedOut,
    DefinitionOut,
    Done,
    Form,
    LeaderboardOut,
    Moment,
    Page,
    moment,
)
from kernelcup.http.api.result_forms import (
    ComparisonOut,
    DeviceOut,
    MeOut,
    RecordOut,
    ReservationOut,
    SecretTokenOut,
    StandingOut,
    SubmissionOut,
    TableOut,
    TokenOut,
    UserOut,
)
from kernelcup.http.dependencies import ActorDep, Db, EntryDep, Now, PlatformDep
from kernelcup.http.middleware import API
from kernelcup.http.route import ApiRoute
from kernelcup.reporting.results import SubmissionInfo

SHOWN: Mapping[Any, Any] = {
    Leaderboard: LeaderboardOut,
    MadeBoard: CreatedOut,
    HandedOut: DefinitionOut,
    Device: DeviceOut,
    User: UserOut,
    Me: MeOut,
    Token: TokenOut,
    SecretToken: SecretTokenOut,
    Reservation: ReservationOut,
    Comparison: ComparisonOut,
    Standing: StandingOut,
    Table: TableOut,
    SubmissionInfo: SubmissionOut,
    Record: RecordOut,
}
"""Schemas of answers that show less than the operation returns."""
KEYWORD = inspect.Parameter.KEYWORD_ONLY
ZIP: dict[str, Any] = {
    "response_class": Response,
    "responses": {**ERRORS, 200: {"description": "A zip file.", "content": {"application/zip": {}}}},
}


class OperationRoute(ApiRoute):
    """The route of an operation, whose function and schemas are made when it is analysed."""

    def __init__(self, operation: Operation) -> None:
        path, methods = f"{API}{operation.path}", [operation.method]
        super().__init__(path, operation.call, methods=methods, include_in_schema=True, name=None)
        self.operation = operation

    def settings(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return what FastAPI is told of it."""
        operation = self.operation
        self.endpoint = function_of(operation)
        more = {
            "name": self.name,
            "status_code": operation.status,
            "response_model": _schema(operation),
            "responses": ERRORS,
            "tags": [operation.subject],
            "description": operation.summary,
            **(ZIP if operation.answer is Archive else {}),
        }
        return super().settings(given | more)


def provided(db: Db, actor: ActorDep, now: Now, platform: PlatformDep, entry: EntryDep) -> Mapping[str, Any]:
    """Return what the server provides to operations."""
    return {
        "db": db,
        "actor": actor,
        "now": now,
        "entry": entry,
        "server": platform.config.server.public_url,
        "trial": platform.trial,
        "creator": None,
        "room": platform.room,
        **platform.config.for_operations,
    }


Provided = Annotated[Mapping[str, Any], Depends(provided)]


def function_of(operation: Operation) -> Any:
    """Return the function of a route, with the parameters that FastAPI reads."""
    outside = [each for each in operation.parameters if not (operation.has_body and each.is_in_body)]
    inside = [each for each in operation.parameters if each not in outside and not each.given.is_upload]

    def route(**values: Any) -> Any:
        given, response = values.pop("provided"), values.pop("response")
        body, files = values.pop("body", None), values.pop("files", None)
        asked = values if body is None else values | {each.name: said_of(each, body) for each in inside}
        if files:
            asked |= {
                each.name: partial(_load, files) for each in operation.parameters if each.given.is_upload
            }
        if operation.is_paged:  # one more tells whether there is a next page
            limit = asked.get("limit", LARGEST_ID)
            more_of_it = {"limit": limit + 1} if "limit" in asked else {}
            found = operation.run(given, asked | more_of_it)
            more = found[limit - 1].id if len(found) > limit else None
            return Page(items=[shown(entry) for entry in found[:limit]], next=more)
        answer = operation.run(given, asked)
        if operation.answer is NoneType:
            return Done()
        if operation.location:
            response.headers["Location"] = f"/api/v1{operation.location}/{answer.id}"
        return [shown(entry) for entry in answer] if isinstance(answer, list) else shown(answer)

    async def apart(**values: Any) -> Any:
        given = values["provided"]
        return await given["room"].aside(given["actor"], partial(route, **values))

    door: Any = apart if operation.is_aside else route
    signature = [in_address(parameter) for parameter in outside]
    signature += _in_body(operation, inside) if operation.has_body else []
    signature.append(inspect.Parameter("provided", KEYWORD, annotation=Provided))
    signature.append(inspect.Parameter("response", KEYWORD, annotation=Response))
    door.__signature__ = inspect.Signature(signature)
    return door


def _in_body(operation: Operation, inside: Sequence[Parameter]) -> list[inspect.Parameter]:
    """Return the parameters of the body: JSON, or, beside an upload, a field of a form with JSON."""
    model = body_of(f"{operation.call.__name__.title().replace('_', '')}In", inside)
    upload = next((each for each in operation.parameters if each.given.is_upload), None)
    if upload is None:
        # A request that says nothing needs no body.
        default = inspect.Parameter.empty if any(each.is_required for each in inside) else model()
        return [inspect.Parameter("body", KEYWORD, default=default, annotation=Annotated[model, Body()])]
    files: Any = list[UploadFile] if upload.is_required else list[UploadFile] | None
    settings: Any = Json[model] | None  # type: ignore[misc, valid-type]
    text = FormField(alias="settings", description="JSON: devices, deadline, ...")
    return [
        inspect.Parameter(
            "files",
            KEYWORD,
            default=inspect.Parameter.empty if upload.is_required else None,
            annotation=Annotated[files, File(description=upload.given.help)],
        ),
        inspect.Parameter("body", KEYWORD, default=None, annotation=Annotated[settings, text]),
    ]


def body_of(name: str, parameters: Sequence[Parameter]) -> type[Form]:
    """Return the form of a body with these parameters; a mapping's keys stand among them."""
    fields: dict[str, Any] = {}
    for parameter in parameters:
        for part in parameter.given.parts:
            fields[part.key] = (_as_people_write(part), Field(default=None, description=part.given.help))
        if not parameter.given.parts:
            fields[parameter.key] = (_bounded(parameter), _field(parameter))
    return create_model(name, __base__=Form, **fields)


def _as_people_write(part: Parameter) -> Any:
    parse, kind = part.given.parse, _bounded(part) | None
    if parse is None:
        return kind
    return Annotated[kind, BeforeValidator(moment(lambda text: parse(text, datetime.now(UTC))))]


def said_of(parameter: Parameter, body: BaseModel) -> Any:
    """Return the value of a parameter; of a mapping those keys that are there. Raise ``InvalidValue``."""
    if not parameter.given.parts:
        return getattr(body, parameter.key)
    kind, _ = without_none(parameter.kind)
    given = {
        part: getattr(body, part.key) for part in parameter.given.parts if part.key in body.model_fields_set
    }
    for part, value in given.items():
        if value is None and not without_none(part.kind)[1]:
            raise InvalidValue(f"{part.key}: null is not allowed; omit the key to keep the value.")
    return kind(**{part.name: value for part, value in given.items()})


def _load(files: Sequence[UploadFile]) -> Task:
    return load_upload({each.filename or "": each.file.read() for each in files})


def _schema(operation: Operation) -> Any:
    """Return the schema of an operation's answer."""
    answer = operation.answer
    if answer is NoneType:
        return Done
    if answer is Archive:
        return None
    if get_origin(answer) is not list:
        return _described(answer)
    schema = _described(*get_args(answer))
    return Page[schema] if operation.is_paged else list[schema]  # type: ignore[valid-type]


def _described(answer: Any) -> Any:
    answer, is_optional = without_none(answer)
    schema = SHOWN.get(answer, answer)
    return schema | None if is_optional else schema


def shown(value: Any) -> Any:
    """Return an answer as the API shows it."""
    if isinstance(value, Archive):
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(value.name)}"}
        return StreamingResponse(value.parts, media_type="application/zip", headers=headers)
    schema = SHOWN.get(type(value))
    return value if schema is None else schema.of(value)


def in_address(parameter: Parameter) -> inspect.Parameter:
    """Return a parameter of the path or the query."""
    key = parameter.key
    place = Path(alias=key) if parameter.in_path else Query(alias=key, description=parameter.given.help)
    annotation: Any = Annotated[_bounded(parameter), place]
    default = inspect.Parameter.empty if parameter.in_path else parameter.default
    return inspect.Parameter(parameter.name, KEYWORD, default=default, annotation=annotation)


def _field(parameter: Parameter) -> Any:
    default = ... if parameter.is_required else parameter.default
    return Field(default=default, description=parameter.given.help)


def _bounded(parameter: Parameter) -> Any:
    """Return a parameter's type with its bounds."""
    least, most, longest = parameter.given.least, parameter.given.most, parameter.given.longest
    kind, is_optional = without_none(parameter.kind)
    if parameter.given.choices:
        kind = Literal[parameter.given.choices]
    elif kind is datetime:
        kind = Moment
    elif kind is int:
        kind = Annotated[int, Field(ge=0 if least is None else least, le=most or LARGEST_ID)]
    elif kind is str:
        shortest = 0 if parameter.default == "" or parameter.in_path else 1
        kind = Annotated[str, Field(min_length=shortest, max_length=longest)]
    elif get_origin(kind) in (list, Sequence):
        (part,) = get_args(kind)
        entry: Any = Annotated[str, Field(min_length=1, max_length=longest)] if part is str else part
        kind = Annotated[list[entry], Field(min_length=least or 0, max_length=most)]
    return kind | None if is_optional else kind
