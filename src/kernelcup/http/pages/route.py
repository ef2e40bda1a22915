"""Routes of pages know who looks; forms are taken from signed-in people and from our own pages only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from kernelcup.http.auth import SAFE_METHODS
from kernelcup.http.dependencies import get_actor
from kernelcup.http.pages import csrf
from kernelcup.http.route import Handler, ViewRoute


async def refuse_nul_in_form(request: Request) -> None:
    """Raise for a form with a NUL character, which no database takes."""
    odd = [name for name, value in (await request.form()).multi_items() if "\0" in f"{name}{value}"]
    if odd:
        raise RequestValidationError(
            [{"type": "nul", "loc": ("form", odd[0]), "msg": "a NUL character is not allowed"}]
        )


class PageRoute(ViewRoute):
    """A page, or what one of its forms does."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        methods = set(settings.pop("methods", None) or {"GET"})
        super().__init__(
            path,
            endpoint,
            methods=methods | ({"HEAD"} if "GET" in methods else set()),
            **settings,
        )

    def get_route_handler(self) -> Handler:
        """Return the handler with the questions before it who asks and from where."""
        handler = super().get_route_handler()

        async def checked(request: Request) -> Response:
            try:
                await csrf.check(request)
                await refuse_nul_in_form(request)
                return await handler(request)
            finally:
                await request.close()  # files that were sent lie on disk

        async def seen(request: Request) -> Response:
            await get_actor(request)  # each page names who is signed in
            return await handler(request)

        async def answer(request: Request) -> Response:
            is_read = request.method in SAFE_METHODS
            return await (self.read(request, seen) if is_read else self.change(request, checked))

        return answer
