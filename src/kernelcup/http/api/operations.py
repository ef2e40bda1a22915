"""The routes of all operations, made from their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fastapi import APIRouter, Body, Depends, Path, Query, Response
from pydantic import Field, create_model

from kernelcup.app.machines.agreement import Comparison
from kernelcup.app.machines.reservations import Reservation
from kernelcup.app.operation import Operation, Parameter
from kernelcup.app.people.accounts import User
from kernelcup.app.people.tokens import Token
from kernelcup.domain import LARGEST_ID, Leaderboard
from kernelcup.http.api.account_forms import TokenOut, UserOut
from kernelcup.http.api.forms import Done, Form, LeaderboardOut, Moment, Page
from kernelcup.http.api.machine_forms import ComparisonOut, ReservationOut
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.route import ApiRoute

SHOWN: Mapping[Any, Any] = {
    Leaderboard: LeaderboardOut,
    User: UserOut,
    Token: TokenOut,
    Reservation: ReservationOut,
    Comparison: ComparisonOut,
}
"""Schemas of answers that show less than the operation returns."""
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def router_of(operations: list[Operation]) -> APIRouter:
    """Return a router with a route for each of these operations, in this order."""
    router = APIRouter(route_class=ApiRoute)
    for operation in operations:
        router.add_api_route(
            operation.path,
            _route(operation),
            methods=[operation.method],
            status_code=operation.status,
            response_model=_schema(operation),
            tags=[operation.subject],
            name=operation.call.__name__,
            description=operation.summary,
        )
    return router


def provided(db: Db, actor: ActorDep, now: Now, platform: PlatformDep) -> Mapping[str, Any]:
    """Return what the server provides to operations."""
    return {"db": db, "actor": actor, "now": now, **platform.config.for_operations}


Provided = Annotated[Mapping[str, Any], Depends(provided)]


def _route(operation: Operation) -> Any:
    """Return the function of a route, with the parameters that FastAPI reads."""
    names = {parameter.key: parameter.name for parameter in operation.parameters}

    def route(**values: Any) -> Any:
        given, response = values.pop("provided"), values.pop("response")
        body = values.pop("body", None)
        said = (
            values
            if body is None
            else values | {name: getattr(body, name) for name in type(body).model_fields}
        )
        asked = {names[key]: value for key, value in said.items()}
        if operation.is_paged:  # one more tells whether there is a next page
            limit = said.get("limit", LARGEST_ID)
            more_of_it = {names["limit"]: limit + 1} if "limit" in names else {}
            found = operation.run(given, asked | more_of_it)
            more = found[limit - 1].id if len(found) > limit else None
            return Page(items=[_shown(entry) for entry in found[:limit]], next=more)
        answer = operation.run(given, asked)
        if operation.answer is NoneType:
            return Done()
        if operation.location:
            response.headers["Location"] = f"/api/v1{operation.location}/{answer.id}"
        return [_shown(entry) for entry in answer] if isinstance(answer, list) else _shown(answer)

    outside = [each for each in operation.parameters if each.in_path or not operation.has_body]
    signature = [_in_address(parameter) for parameter in outside]
    if operation.has_body:
        inside = [each for each in operation.parameters if not each.in_path]
        fields: dict[str, Any] = {each.key: (_bounded(each), _field(each)) for each in inside}
        model = create_model(
            f"{operation.call.__name__.title().replace('_', '')}In",
            __base__=Form,
            **fields,
        )
        signature.append(inspect.Parameter("body", KEYWORD, annotation=Annotated[model, Body()]))
    signature.append(inspect.Parameter("provided", KEYWORD, annotation=Provided))
    signature.append(inspect.Parameter("response", KEYWORD, annotation=Response))
    route.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return route


def _schema(operation: Operation) -> Any:
    """Return the schema of an operation's answer."""
    answer = operation.answer
    if answer is NoneType:
        return Done
    if get_origin(answer) is not list:
        return _described(answer)
    schema = _described(*get_args(answer))
    return Page[schema] if operation.is_paged else list[schema]  # type: ignore[valid-type]


def _described(answer: Any) -> Any:
    """Return the schema of an answer; fields of a dataclass, and of those in it, are described as in the source."""
    if is_dataclass(answer):
        answer.__pydantic_config__ = {"use_attribute_docstrings": True}  # type: ignore[attr-defined]
    return SHOWN.get(answer, answer)


def _shown(value: Any) -> Any:
    schema = SHOWN.get(type(value))
    return value if schema is None else schema.of(value)


def _in_address(parameter: Parameter) -> inspect.Parameter:
    """Return a parameter of the path or the query."""
    place = Path() if parameter.in_path else Query(description=parameter.given.help)
    annotation: Any = Annotated[_bounded(parameter), place]
    default = inspect.Parameter.empty if parameter.in_path else parameter.default
    return inspect.Parameter(parameter.key, KEYWORD, default=default, annotation=annotation)


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
    elif get_origin(kind) is list:
        entry = Annotated[str, Field(min_length=1, max_length=longest)]
        kind = Annotated[list[entry], Field(min_length=least or 0, max_length=most)]
    return kind | None if is_optional else kind


def without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was in it."""
    if get_origin(kind) not in (UnionType, Union) or NoneType not in get_args(kind):
        return kind, False
    (rest,) = (part for part in get_args(kind) if part is not NoneType)
    return rest, True
