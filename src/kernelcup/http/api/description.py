"""The description of all routes, made when somebody asks for it."""

from __future__ import annotations

import ast
import inspect
import threading
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Any, get_args, get_type_hints

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

TEXT = """\
Competitions for the fastest GPU kernel.

Sign in with a header `Authorization: Bearer TOKEN`; create tokens with `kernelcup login` or under
`/api/v1/tokens`. Errors have one shape, `{"error": {"code", "message", "request_id", ...}}`, with stable
codes. Lists come in pages: pass `next` of a page as `after` to get the following page.
"""
MAKING = threading.Lock()


class Application(FastAPI):
    """The application, whose description says how to sign in, and of fields what the source says of them."""

    def openapi(self) -> dict[str, Any]:
        """Return the description of all routes."""
        with MAKING:
            if self.openapi_schema is None:
                schema = super().openapi()
                describe_sign_in(schema)
                describe_fields(self, schema["components"]["schemas"])
            return super().openapi()


def show_description(request: Request) -> Response:
    """Answer with the description, which takes seconds to make: in a thread, since this is no coroutine."""
    return JSONResponse(request.app.openapi())


def describe_sign_in(schema: dict[str, Any]) -> None:
    """Add token authentication to a schema: required for changes, optional otherwise."""
    token = {"type": "http", "scheme": "bearer", "description": "A token from `kernelcup login`."}
    schema.setdefault("components", {})["securitySchemes"] = {"token": token}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            if path.startswith("/api/v1/auth/"):
                operation["security"] = []
            elif path.startswith("/api/v1/"):
                needed: list[dict[str, Any]] = [{"token": []}]
                operation["security"] = [{}, *needed] if method in ("get", "head") else needed


def describe_fields(app: FastAPI, schemas: dict[str, Any]) -> None:
    """Add to the schemas of dataclasses the docstrings of their fields, which are read from the source."""
    found: set[Any] = set()
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            find_dataclasses(route.response_model, found)
    for each in found:
        fields = schemas.get(each.__name__, {}).get("properties", {})
        for name, text in docstrings(each):
            if name in fields:
                fields[name].setdefault("description", text)


def find_dataclasses(kind: Any, found: set[Any]) -> None:
    """Add the dataclasses of which a type is made."""
    parts = list(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        parts += [each.annotation for each in kind.model_fields.values()]
    elif isinstance(kind, type) and is_dataclass(kind) and kind not in found:
        found.add(kind)
        parts += get_type_hints(kind).values()
    for part in parts:
        find_dataclasses(part, found)


def docstrings(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the names of a class's fields with the strings below them."""
    (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in pairwise(tree.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
