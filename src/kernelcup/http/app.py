"""The application: routes, errors and middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.middleware.sessions import SessionMiddleware

from kernelcup import __version__, extensions
from kernelcup.app import load as load_rooms
from kernelcup.http import errors, health
from kernelcup.http.api import routes as api
from kernelcup.http.api.description import TEXT, Application, show_description
from kernelcup.http.capacity import THREADS
from kernelcup.http.dependencies import refuse_nul
from kernelcup.http.metrics import Metrics
from kernelcup.http.middleware import API, BodyLimit, Surroundings
from kernelcup.http.pages import routes as pages
from kernelcup.http.route import LaterRoute
from kernelcup.http.sign_in import device_flow
from kernelcup.http.sign_in import pages as signin
from kernelcup.http.state import Platform

COOKIE = "kernelcup_browser"

ROUTES = [
    *health.router.routes,
    *signin.pages.routes,
    *device_flow.router.routes,
    *api.routes,
    *pages.router.routes,
]


@asynccontextmanager
async def few_threads(_: FastAPI) -> AsyncIterator[None]:
    """Let few threads serve requests."""
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def create_app(platform: Platform) -> FastAPI:
    """Build the application over its parts."""
    load_rooms()
    app = Application(
        title="KernelCup",
        version=__version__,
        description=TEXT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A path with one slash too many is not found: a redirect would lose the token.
        redirect_slashes=False,
        lifespan=few_threads,
    )
    metrics = Metrics()
    metrics.watch_database(platform)
    metrics.watch_streams(lambda: platform.hub.streams)
    app.state.platform = platform
    app.state.metrics = metrics
    app.state.health = health.Watch(lambda: health.checks_of(platform))
    app.state.figures = health.Watch(metrics.render)
    errors.install(app)
    app.add_route(f"{API}/openapi.json", show_description)
    # As they are: FastAPI would analyse what it includes once more, for each application.
    app.router.routes.extend(ROUTES)
    # Last: their paths may begin with names of leaderboards.
    for router in extensions.routers():
        if all(isinstance(each, LaterRoute) for each in router.routes):
            app.router.routes.extend(router.routes)
        else:
            app.include_router(router, dependencies=[Depends(refuse_nul)])
    app.add_middleware(
        SessionMiddleware,
        secret_key=platform.secret,
        session_cookie=COOKIE,
        same_site="lax",
        https_only=platform.config.server.public_url.startswith("https://"),
        max_age=3600,
    )
    app.add_middleware(BodyLimit)
    app.add_middleware(Surroundings, metrics=metrics)
    return app
