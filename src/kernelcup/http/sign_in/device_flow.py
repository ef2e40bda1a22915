"""Sign-in of a command line through a browser on any machine (RFC 8628)."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from kernelcup.app.people import device_login
from kernelcup.domain import Scope
from kernelcup.errors import SignInDenied, SignInExpired, SignInPending, SlowDown, UserError
from kernelcup.http.api.forms import ERRORS, Form
from kernelcup.http.dependencies import PlatformDep
from kernelcup.http.middleware import API
from kernelcup.http.route import LaterRoute
from kernelcup.http.throttle import address_of, throttled

router = APIRouter(prefix=f"{API}/auth/device", tags=["sign-in"], route_class=LaterRoute, responses=ERRORS)

LONGEST_CLIENT = 60


class DeviceIn(Form):
    """A command line that asks to be let in."""

    client: str = Field(
        min_length=1,
        max_length=LONGEST_CLIENT,
        examples=["kernelcup on laptop"],
        description="Shown to the person.",
    )
    scopes: list[Scope] = Field(default=[Scope.READ, Scope.SUBMIT], min_length=1, max_length=10)


class DeviceOut(BaseModel):
    """The codes for the command line."""

    device_code: str
    user_code: str = Field(examples=["BCDF-GHJK"])
    verification_uri: str
    expires_in: int = Field(description="Seconds.")
    interval: int = Field(description="Seconds between two requests.")


class DeviceTokenIn(Form):
    """A request for the token of a started sign-in."""

    device_code: str = Field(min_length=1, max_length=200)


class DeviceTokenOut(BaseModel):
    """The token, which is returned once."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"
    user: str


@router.post("", status_code=201, dependencies=[Depends(throttled("device_start", 20))])
def start(body: DeviceIn, request: Request, platform: PlatformDep) -> DeviceOut:
    """Start the sign-in of a command line: show `user_code` and `verification_uri`, then ask for the token."""
    now = platform.clock()
    client = f"{body.client}, from {address_of(request)}"
    login = device_login.start_device_login(platform.db, client=client, scopes=body.scopes, now=now)
    return DeviceOut(
        device_code=login.device_code,
        user_code=login.user_code,
        verification_uri=f"{platform.config.server.public_url}/auth/device",
        expires_in=int((login.expires_at - now).total_seconds()),
        interval=login.interval_s,
    )


@router.post("/token", dependencies=[Depends(throttled("device_poll", 300))])
def ask(body: DeviceTokenIn, platform: PlatformDep) -> DeviceTokenOut:
    """Ask for the token. Errors are `authorization_pending`, `slow_down`, `access_denied`, `expired_token`."""
    result = device_login.poll_device_login(platform.db, body.device_code, now=platform.clock())
    if result.secret is None or result.user is None:
        raise _refusal(result.status)
    return DeviceTokenOut(access_token=result.secret, user=result.user)


def _refusal(status: device_login.Status) -> UserError:
    if status == "pending":
        return SignInPending("The request is not decided yet; ask again after the interval.")
    if status == "slow_down":
        return SlowDown("Requests come too often; wait five seconds longer between two requests.")
    if status == "denied":
        return SignInDenied("The sign-in was refused.")
    return SignInExpired("The code is unknown, expired or used; start again.")
